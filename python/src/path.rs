//! Which values of a sample a path means.
//!
//! A path steps through objects by name and through arrays by number; without a number it means that field of
//! every item, as in `joints.position`. A `*` steps into every field of an object that has the rest of the path:
//! `*.position`. A field name with a dot in it is written as it is.
//!
//! Names in foreign logs collide: two fields of one name, `a.b` as a name and as a path, a field called `*` or `0`. So
//! every field is listed under a path of its own, which means that field and no other; a path that is not listed and
//! can be read in several ways is an error.

use khz_tlog::{Field, Type, Value};
use std::collections::{HashMap, HashSet};

/// The step into every field of an object.
const EVERY: &str = "*";
/// A sample that holds more values is not taken for one of a fixed number, whatever its schema claims: memory is
/// kept for so many.
const MOST: usize = 65_536;

/// The way from a value to those a path means.
#[derive(Clone)]
pub enum Route {
    /// It is the value itself.
    Here,
    /// Through the field of this number.
    Field(usize, Box<Route>),
    /// Through the item of this number.
    Item(usize, Box<Route>),
    /// Through every item.
    Items(Box<Route>),
    /// Through these fields.
    Every(Vec<(usize, Route)>),
}

/// How many values a sample holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One.
    One,
    /// One, which a sample may lack.
    Maybe,
    /// Several: always so many, or a number that may change.
    Many(Option<usize>),
    /// Arrays within others whose lengths may change: one after another they could not be distinguished.
    Nested,
}

/// What a path means.
pub enum Found<T> {
    /// Nothing.
    Nothing,
    /// This.
    One(T),
    /// It can be read in several ways.
    Several,
}

/// The fields of a record, each with a path of its own.
pub struct Paths<'a> {
    record: &'a Type,
    listed: Vec<(String, Route)>,
    numbers: HashMap<String, usize>,
}

impl<'a> Paths<'a> {
    /// The fields of a record of this type.
    pub fn new(record: &'a Type) -> Self {
        let (paths, routes): (Vec<_>, Vec<_>) = fields(record).into_iter().unzip();
        let listed: Vec<_> = unique(&paths).into_iter().zip(routes).collect();
        let numbers = listed.iter().enumerate().map(|(number, (path, _))| (path.clone(), number)).collect();
        Self { record, listed, numbers }
    }

    /// Their paths, arrays without numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|(path, _)| path.as_str())
    }

    /// What a path means: the field listed under it, or else whatever it leads to.
    pub fn find(&self, path: &str) -> Found<Route> {
        match self.numbers.get(path) {
            Some(&number) => Found::One(self.listed[number].1.clone()),
            None => read(self.record, Some(path)),
        }
    }
}

impl<T> Found<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Nothing => Found::Nothing,
            Self::One(one) => Found::One(change(one)),
            Self::Several => Found::Several,
        }
    }

    /// What is found here or there.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, found) | (found, Self::Nothing) => found,
            _ => Self::Several,
        }
    }
}

impl Route {
    /// The type of the values, and how many a sample holds; `None` where they are of several types.
    pub fn target<'a>(&self, ty: &'a Type) -> Option<(&'a Type, Shape)> {
        let (below, route): (&Type, _) = match (self, ty) {
            (Self::Here, leaf) => return Some((leaf, Shape::One)),
            (Self::Every(routes), Type::Object(fields)) => return every_target(fields, routes),
            (Self::Field(number, route), Type::Object(fields)) => (&fields.get(*number)?.ty, route),
            (Self::Item(_, route) | Self::Items(route), Type::Array(item) | Type::FixedArray(_, item)) => {
                (item, route)
            }
            _ => return None,
        };
        let (leaf, shape) = route.target(below)?;
        let shape = match (self, ty) {
            (Self::Item(..), Type::Array(_)) => shape.in_item_that_may_lack(),
            (Self::Items(_), Type::Array(_)) => shape.in_array(),
            (Self::Items(_), Type::FixedArray(length, _)) => shape.times(*length),
            _ => shape,
        };
        Some((leaf, shape))
    }

    /// Gives each of the values within `value` to `take`, one after another.
    pub fn each<'v>(&self, value: Value<'v>, take: &mut impl FnMut(Value<'v>)) {
        match (self, value) {
            (Self::Here, value) => take(value),
            (Self::Field(number, route), Value::Object(mut fields)) => {
                fields.nth(*number).into_iter().for_each(|(_, value)| route.each(value, take));
            }
            (Self::Item(number, route), Value::Array(mut items)) => {
                items.nth(*number).into_iter().for_each(|value| route.each(value, take));
            }
            (Self::Items(route), Value::Array(items)) => items.for_each(|item| route.each(item, take)),
            (Self::Every(routes), Value::Object(fields)) => {
                through(fields, routes).for_each(|(route, value)| route.each(value, take));
            }
            _ => {}
        }
    }

    /// Offsets of the values from `start` on, if no length before and of them ever changes.
    pub fn offsets(&self, ty: &Type, start: usize, offsets: &mut Vec<usize>) -> Option<()> {
        match (self, ty) {
            (Self::Here, leaf) if offsets.len() < MOST => {
                leaf.fixed_size()?;
                offsets.push(start);
                Some(())
            }
            (Self::Field(number, route), Type::Object(fields)) => {
                route.offsets(&fields.get(*number)?.ty, start + size(&fields[..*number])?, offsets)
            }
            (Self::Item(number, route), Type::FixedArray(_, item)) => {
                route.offsets(item, start.checked_add(number.checked_mul(item.fixed_size()?)?)?, offsets)
            }
            (Self::Items(route), Type::FixedArray(length, item)) => {
                let size = item.fixed_size()?;
                (0..usize::try_from(*length).ok()?)
                    .try_for_each(|i| route.offsets(item, start.checked_add(i.checked_mul(size)?)?, offsets))
            }
            (Self::Every(routes), Type::Object(fields)) => routes.iter().try_for_each(|(number, route)| {
                route.offsets(&fields.get(*number)?.ty, start + size(&fields[..*number])?, offsets)
            }),
            _ => None,
        }
    }
}

impl Shape {
    fn in_item_that_may_lack(self) -> Self {
        match self {
            Self::One | Self::Maybe => Self::Maybe,
            _ => Self::Nested,
        }
    }

    fn in_array(self) -> Self {
        match self {
            Self::One | Self::Many(Some(_)) => Self::Many(None),
            _ => Self::Nested,
        }
    }

    fn times(self, length: u64) -> Self {
        let length = usize::try_from(length).ok();
        match self {
            Self::One => Self::many(length),
            Self::Many(Some(each)) => Self::many(length.and_then(|length| each.checked_mul(length))),
            _ => Self::Nested,
        }
    }

    fn many(length: Option<usize>) -> Self {
        Self::Many(length.filter(|length| *length <= MOST))
    }
}

/// Texts, each with a number behind it if it has come before, and none twice.
pub fn unique<'a, T: AsRef<str>>(names: &'a [T]) -> Vec<String> {
    let wanted: HashSet<&str> = names.iter().map(AsRef::as_ref).collect();
    let (mut last, mut given) = (HashMap::new(), HashSet::new());
    let number_one = |name: &'a T| {
        let (name, number) = (name.as_ref(), last.entry(name.as_ref()).or_insert(0));
        loop {
            *number += 1;
            let candidate = if *number == 1 { name.to_owned() } else { format!("{name}_{number}") };
            let is_another_s = *number > 1 && wanted.contains(candidate.as_str());
            if !is_another_s && given.insert(candidate.clone()) {
                return candidate;
            }
        }
    };
    names.iter().map(number_one).collect()
}

fn field_names(fields: &[Field]) -> Vec<String> {
    unique(&fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>())
}

/// The fields below a type, and the ways to them.
fn fields(ty: &Type) -> Vec<(String, Route)> {
    match ty {
        Type::Null => Vec::new(),
        Type::Object(list) => {
            let below = |(number, (field, name)): (usize, (&Field, String))| {
                fields(&field.ty)
                    .into_iter()
                    .map(move |(path, route)| (joined(&name, &path), Route::Field(number, route.into())))
            };
            list.iter().zip(field_names(list)).enumerate().flat_map(below).collect()
        }
        Type::Array(item) | Type::FixedArray(_, item) => {
            fields(item).into_iter().map(|(path, route)| (path, Route::Items(route.into()))).collect()
        }
        _ => vec![(String::new(), Route::Here)],
    }
}

fn joined(name: &str, path: &str) -> String {
    match (name, path) {
        ("", path) => path.to_owned(),
        (name, "") => name.to_owned(),
        (name, path) => format!("{name}.{path}"),
    }
}

/// What a path, or its end, means in a type.
fn read(ty: &Type, path: Option<&str>) -> Found<Route> {
    match (ty, path) {
        (Type::Object(fields), Some(path)) => {
            cuts(path).map(|(step, rest)| through_field(fields, step, rest)).fold(Found::Nothing, Found::or)
        }
        (Type::Array(item), _) => in_array(item, u64::MAX, path),
        (Type::FixedArray(length, item), _) => in_array(item, *length, path),
        (Type::Object(_) | Type::Null, None) | (_, Some(_)) => Found::Nothing,
        (_, None) => Found::One(Route::Here),
    }
}

/// Every way to cut off a first step.
fn cuts(path: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let dots = path.match_indices('.').map(|(at, _)| at);
    dots.chain([path.len()]).map(|at| (&path[..at], path.get(at + 1..)))
}

fn through_field(fields: &[Field], step: &str, rest: Option<&str>) -> Found<Route> {
    let named = match field_names(fields).iter().position(|name| name == step) {
        Some(number) => read(&fields[number].ty, rest).map(|route| Route::Field(number, route.into())),
        None => Found::Nothing,
    };
    if step == EVERY { named.or(through_every(fields, rest)) } else { named }
}

fn through_every(fields: &[Field], rest: Option<&str>) -> Found<Route> {
    let mut routes = Vec::new();
    for (number, field) in fields.iter().enumerate() {
        match read(&field.ty, rest) {
            Found::Nothing => {}
            Found::One(route) => routes.push((number, route)),
            Found::Several => return Found::Several,
        }
    }
    match every_target(fields, &routes) {
        Some(_) => Found::One(Route::Every(routes)),
        None => Found::Nothing,
    }
}

fn in_array(item: &Type, length: u64, path: Option<&str>) -> Found<Route> {
    let (step, rest) = path.and_then(|path| cuts(path).next()).unwrap_or_default();
    let is_number = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return read(item, path).map(|route| Route::Items(route.into()));
    }
    match step.parse().ok().filter(|number| (*number as u64) < length) {
        Some(number) => read(item, rest).map(|route| Route::Item(number, route.into())),
        None => Found::Nothing,
    }
}

fn every_target<'a>(fields: &'a [Field], routes: &[(usize, Route)]) -> Option<(&'a Type, Shape)> {
    let targets = routes.iter().map(|(number, route)| route.target(&fields.get(*number)?.ty));
    let targets: Vec<_> = targets.collect::<Option<_>>()?;
    let (first, _) = *targets.first()?;
    let lengths = targets.iter().map(|(_, shape)| match shape {
        Shape::One => Some(1),
        Shape::Many(length) => *length,
        Shape::Maybe | Shape::Nested => None,
    });
    let shape = match lengths.sum::<Option<usize>>() {
        Some(length) => Shape::many(Some(length)),
        None => Shape::Nested,
    };
    targets.iter().all(|(leaf, _)| *leaf == first).then_some((first, shape))
}

/// The values of the fields that a `*` means.
pub fn through<'p, 'v>(
    fields: impl Iterator<Item = (&'v str, Value<'v>)>,
    routes: &'p [(usize, Route)],
) -> impl Iterator<Item = (&'p Route, Value<'v>)> {
    let mut routes = routes.iter().peekable();
    fields.enumerate().filter_map(move |(number, (_, value))| {
        routes.next_if(|(wanted, _)| *wanted == number).map(|(_, route)| (route, value))
    })
}

fn size(fields: &[Field]) -> Option<usize> {
    fields.iter().try_fold(0usize, |sum, field| sum.checked_add(field.ty.fixed_size()?))
}
