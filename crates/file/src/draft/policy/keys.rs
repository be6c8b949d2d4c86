//! A file that is read key by key: values that are not what they should be are reported, and so are unused keys.

use super::short;
use super::yaml::Yaml;
use std::cell::RefCell;
use std::f64::consts::TAU;
use std::fmt::Display;

/// So many unused keys are named; more are only counted.
const MOST_LEFT: usize = 20;

/// A map whose keys are taken out by who understands them. Nothing at all (`null`) is as a key that is not there.
pub(super) struct Keys<'a> {
    /// File and keys that lead to it.
    path: String,
    yaml: &'a mut Yaml,
    /// So many has the policy.
    pub(super) joints: usize,
    reported: &'a RefCell<Vec<String>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(
        file: &str,
        yaml: &'a mut Yaml,
        joints: usize,
        reported: &'a RefCell<Vec<String>>,
    ) -> Self {
        Self { path: format!("{file}: "), yaml, joints, reported }
    }

    /// Reports what of it is not understood.
    pub(super) fn report(&self, what: impl Display) {
        self.reported.borrow_mut().push(format!("{}{what}", self.path));
    }

    /// What was reported while something was done.
    pub(super) fn reported_by<T>(&mut self, done: impl FnOnce(&mut Self) -> T) -> (T, Vec<String>) {
        let before = self.reported.borrow().len();
        let done = done(self);
        (done, self.reported.borrow()[before..].to_vec())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.yaml.get(key).is_some()
    }

    pub(super) fn is_list(&self, key: &str) -> bool {
        self.yaml.get(key).is_some_and(|found| found.list().is_some())
    }

    /// What is behind it has neither text nor number, or there is nothing.
    pub(super) fn is_empty(&self, key: &str) -> bool {
        self.yaml.get(key).is_none_or(Yaml::is_empty)
    }

    /// Each of the pairs of numbers behind it lies so far from 0, on either side.
    pub(super) fn is_beyond(&self, key: &str, far: f64) -> bool {
        let is_far = |pair: &Yaml| {
            let pair = pair.numbers().and_then(|pair| <[f64; 2]>::try_from(pair).ok());
            pair.is_some_and(|[least, most]| least <= -far && most >= far)
        };
        self.yaml.get(key).and_then(Yaml::list).is_some_and(|pairs| pairs.iter().all(is_far))
    }

    /// All but this key are understood, and change nothing here.
    pub(super) fn pass_others(&mut self, but: &str) {
        if let Some(kept) = self.yaml.take(but) {
            *self.yaml = Yaml::Map(vec![(but.to_owned(), kept)]);
        }
    }

    /// These are understood, and change nothing here.
    pub(super) fn pass(&mut self, keys: &[&str]) {
        keys.iter().for_each(|key| drop(self.yaml.take(key)));
    }

    fn take<T>(&mut self, key: &str, what: &str, read: impl FnOnce(&Yaml) -> Option<T>) -> Option<T> {
        let found = self.yaml.take(key)?;
        let value = read(&found);
        if value.is_none() {
            self.report(format_args!("{key}: `{}` is not {what}", short(&found.to_string())));
        }
        value
    }

    pub(super) fn number(&mut self, key: &str) -> Option<f64> {
        self.take(key, "a number", Yaml::number)
    }

    pub(super) fn numbers(&mut self, key: &str) -> Option<Vec<f64>> {
        self.take(key, "a list of numbers", Yaml::numbers)
    }

    /// One number for all joints, or one each.
    pub(super) fn each(&mut self, key: &str) -> Option<Vec<f64>> {
        let joints = self.joints;
        let fits = |list: &Vec<f64>| list.len() == 1 || list.len() == joints;
        let what = format!("one number for all joints, or one for each of {joints}");
        self.take(key, &what, |found| found.numbers().filter(fits))
    }

    /// As [`Self::each`], and none is negative.
    pub(super) fn gains(&mut self, key: &str) -> Option<Vec<f64>> {
        let list = self.each(key)?;
        self.gains_in(key, list)
    }

    pub(super) fn gains_in(&self, key: &str, list: Vec<f64>) -> Option<Vec<f64>> {
        let negative = list.iter().find(|gain| **gain < 0.0);
        negative.iter().for_each(|gain| self.report(format_args!("{key}: {gain} is negative")));
        negative.is_none().then_some(list)
    }

    /// A posture, rad, with a number for each joint.
    pub(super) fn posture(&mut self, key: &str) -> Option<Vec<f64>> {
        let list = self.each(key)?;
        Some(self.posture_in(key, list))
    }

    pub(super) fn posture_in(&self, key: &str, list: Vec<f64>) -> Vec<f64> {
        if let Some(angle) = list.iter().find(|angle| angle.abs() > TAU) {
            self.report(format_args!("{key}: {angle} rad is more than a turn; are these degrees?"));
        }
        if list.len() == 1 { vec![list[0]; self.joints] } else { list }
    }

    /// For each joint another place, from 0.
    pub(super) fn places(&mut self, key: &str) -> Option<Vec<usize>> {
        let joints = self.joints;
        let read = |found: &Yaml| {
            let places = found.list()?.iter().map(Yaml::whole).collect::<Option<Vec<_>>>()?;
            let twice = |(at, place): (usize, &usize)| places[..at].contains(place);
            let is_right = places.len() == joints && !places.iter().enumerate().any(twice);
            is_right.then_some(places)
        };
        self.take(key, &format!("{joints} different places, from 0"), read)
    }

    pub(super) fn whole(&mut self, key: &str) -> Option<usize> {
        self.take(key, "a number from 0 without a fraction", Yaml::whole)
    }

    pub(super) fn wholes(&mut self, key: &str) -> Option<Vec<usize>> {
        let read = |found: &Yaml| found.list()?.iter().map(Yaml::whole).collect();
        self.take(key, "a list of numbers from 0 without a fraction", read)
    }

    /// Least and greatest.
    pub(super) fn bounds(&mut self, key: &str) -> Option<[f64; 2]> {
        let read = |found: &Yaml| {
            let pair = <[f64; 2]>::try_from(found.numbers()?).ok();
            pair.filter(|[least, most]| least <= most)
        };
        self.take(key, "least and greatest", read)
    }

    /// Least of `lower` and greatest of `upper`.
    pub(super) fn bounds_of(&mut self, lower: &str, upper: &str) -> Option<Vec<[f64; 2]>> {
        let has = [lower, upper].map(|key| self.has(key));
        if has[0] != has[1] {
            self.report(format_args!("of `{lower}` and `{upper}` only one is there"));
        }
        let lists = [self.each(lower), self.each(upper)];
        let [Some(least), Some(most)] = lists else { return None };
        let count = least.len().max(most.len());
        let at = |list: &[f64], place: usize| list[if list.len() == 1 { 0 } else { place }];
        let pairs: Vec<_> = (0..count).map(|place| [at(&least, place), at(&most, place)]).collect();
        let reversed = pairs.iter().find(|[least, most]| least > most);
        reversed.iter().for_each(|pair| self.report(format_args!("`{lower}` and `{upper}`: {pair:?}")));
        reversed.is_none().then_some(pairs)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.take(key, "a text", |found| found.text().map(str::to_owned))
    }

    pub(super) fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        self.take(key, "a list of texts", Yaml::texts)
    }

    /// Texts of which each is another.
    pub(super) fn names(&mut self, key: &str) -> Option<Vec<String>> {
        let is_name = |name: &String| !name.is_empty() && !name.contains(['[', ']', '\'', '"', '*', '\\']);
        let read = |found: &Yaml| {
            let names = found.texts()?;
            let twice = |(at, name): (usize, &String)| names[..at].contains(name);
            let is_right = names.iter().all(is_name) && !names.iter().enumerate().any(twice);
            is_right.then_some(names)
        };
        self.take(key, "a list of names, each another", read)
    }

    /// The map behind a key.
    pub(super) fn within(&mut self, key: &str) -> Option<Keys<'_>> {
        match self.yaml.get(key)? {
            Yaml::Map(_) => {
                let path = format!("{}{key}.", self.path);
                let yaml = self.yaml.get_mut(key)?;
                Some(Keys { path, yaml, joints: self.joints, reported: self.reported })
            }
            _ => self.take(key, "a map", |_| None),
        }
    }

    /// The maps in the map or the list behind a key, with their keys.
    pub(super) fn maps(&mut self, key: &str) -> Vec<(String, Keys<'_>)> {
        let (joints, reported) = (self.joints, self.reported);
        let path = format!("{}{key}", self.path);
        let Some(yaml) = self.yaml.get_mut(key) else { return Vec::new() };
        let items: Vec<(String, String, &mut Yaml)> = match yaml {
            Yaml::Map(map) => {
                map.iter_mut().map(|(key, yaml)| (key.clone(), format!("{path}.{key}"), yaml)).collect()
            }
            Yaml::List(list) => {
                let item = |(at, yaml)| (format!("{at}"), format!("{path}[{at}]"), yaml);
                list.iter_mut().enumerate().map(item).collect()
            }
            _ => Vec::new(),
        };
        let mut maps = Vec::new();
        for (key, path, yaml) in items {
            match yaml {
                Yaml::Map(_) => maps.push((key, Keys { path: format!("{path}."), yaml, joints, reported })),
                Yaml::Null => reported.borrow_mut().push(format!("{path}: it has no value")),
                // Reported with the rest.
                _ => {}
            }
        }
        maps
    }

    /// Reports unused keys.
    pub(super) fn close(&mut self) {
        let mut left = Vec::new();
        rest(self.yaml, &self.path, &mut left);
        *self.yaml = Yaml::Null;
        let more = left.len().saturating_sub(MOST_LEFT);
        let mut reported = self.reported.borrow_mut();
        reported.extend(left.into_iter().take(MOST_LEFT));
        if more > 0 {
            reported.push(format!("{}{more} more keys that are not known", self.path));
        }
    }
}

/// Everything in it except empty values.
fn rest(yaml: &Yaml, path: &str, left: &mut Vec<String>) {
    let path = path.trim_end_matches(['.', ' ', ':']);
    match yaml {
        Yaml::Map(map) => {
            let apart = if path.contains(": ") { "." } else { ": " };
            map.iter().for_each(|(key, yaml)| rest(yaml, &format!("{path}{apart}{key}"), left));
        }
        Yaml::List(list) if list.iter().any(|item| matches!(item, Yaml::Map(_))) => {
            list.iter().enumerate().for_each(|(at, yaml)| rest(yaml, &format!("{path}[{at}]"), left));
        }
        _ if yaml.is_empty() => {}
        _ => left.push(format!("{path}: `{}` has no meaning here that is known", short(&yaml.to_string()))),
    }
}
