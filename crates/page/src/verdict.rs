//! The verdict on an experiment: one sentence, and the same in few words.
use super::{Level, Page, grouped};
use serde::{Deserialize, Serialize};

/// The verdict on an experiment. Badge, sentence, terminal and JSON all come from here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verdict {
    /// How good it is.
    pub level: Level,
    /// Whether it did what was asked of it: held its rate, answered in time, kept every promise.
    pub held: bool,
    /// In a few words, for a badge: `held 1000 Hz`.
    #[serde(alias = "grade")]
    pub headline: String,
    /// One sentence: what happened, by how much, why, and what to do.
    pub text: String,
    /// What most of it comes from.
    pub cause: Option<String>,
    /// What to do next.
    #[serde(rename = "do")]
    pub remedy: Option<String>,
    /// Why it is no better, one sentence each.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// The sentence: `what`, then the cause and what to do, where there is something.
    #[must_use]
    pub fn sentence(mut self, what: &str) -> Self {
        let cause = self.cause.as_ref().map_or(String::new(), |cause| format!(", mostly because {cause}"));
        let remedy = self.remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
        self.text = capitalised(&format!("{what}{cause}{remedy}."));
        self
    }

    /// The sentence begins with the text of the badge.
    pub(super) fn repeats_its_headline(&self) -> bool {
        self.text.to_lowercase().starts_with(&self.headline.to_lowercase())
    }
}

impl Page {
    /// The verdict: the sentence under the title, and a badge beside it where that differs. A later one replaces it.
    #[must_use]
    pub fn verdict(mut self, verdict: &Verdict) -> Self {
        self.verdict = Some(verdict.clone());
        self
    }
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// `1 tick`, `2,000 ticks`.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_leaves_out_what_there_is_not() {
        let verdict = Verdict { cause: Some("it rained".into()), ..Verdict::default() };
        assert_eq!(Verdict::default().sentence("held 1 Hz").text, "Held 1 Hz.");
        assert_eq!(verdict.clone().sentence("fell").text, "Fell, mostly because it rained.");
        let verdict = Verdict { remedy: Some("run `khz doctor`".into()), ..verdict };
        assert_eq!(verdict.sentence("fell").text, "Fell, mostly because it rained; run `khz doctor`.");
    }
}
