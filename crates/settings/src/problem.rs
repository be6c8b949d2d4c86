//! What is wrong with a robot file: where, why, and what to write instead.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// One thing wrong in a robot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Only suspicious: the file can be used as it is.
    pub warning: bool,
    /// The key it is about, with its tables: `servo[2].id`. Empty for the file as a whole.
    pub key: String,
    /// What is wrong.
    pub title: String,
    /// What to write instead.
    pub help: String,
    /// Line of the first mark, from 1; 0 if there is none.
    pub line: usize,
    /// Column of the first mark in characters, from 1; 0 if there is none.
    pub column: usize,
    marks: Vec<(Range<usize>, String)>,
}

impl Problem {
    /// An error about `key`.
    pub fn error(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            warning: false,
            key: key.into(),
            title: title.into(),
            help: String::new(),
            line: 0,
            column: 0,
            marks: Vec::new(),
        }
    }

    /// Something suspicious about `key`.
    pub fn warning(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self { warning: true, ..Self::error(key, title) }
    }

    /// Marks a place in the text; the first mark is the place the problem is reported at.
    #[must_use]
    pub fn at(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.marks.push((span, label.into()));
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Finds line and column of the first mark.
    pub(crate) fn locate(&mut self, text: &str) {
        let Some((span, _)) = self.marks.first() else { return };
        let before = text.get(..span.start).unwrap_or(text);
        self.line = before.matches('\n').count() + 1;
        self.column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    }

    /// Where in the text the first mark begins; 0 if there is none.
    pub fn start(&self) -> usize {
        self.marks.first().map_or(0, |(span, _)| span.start)
    }

    /// The problem as a compiler would show it.
    pub(crate) fn render(&self, text: &str, name: &str) -> String {
        let level = if self.warning { Level::WARNING } else { Level::ERROR };
        let mut group: Group<'_> = Group::with_title(level.primary_title(&self.title));
        if !self.marks.is_empty() {
            let marks = self.marks.iter().enumerate().map(|(i, (span, label))| {
                let kind = if i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                kind.span(within(text, span)).label(label)
            });
            group = group.element(Snippet::source(text).path(name).annotations(marks));
        }
        if !self.help.is_empty() {
            group = group.element(Level::HELP.message(&self.help));
        }
        Renderer::plain().decor_style(DecorStyle::Ascii).render(&[group])
    }
}

/// The span, moved onto character boundaries that exist.
fn within(text: &str, span: &Range<usize>) -> Range<usize> {
    let boundary =
        |at: usize| (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let start = boundary(span.start);
    start..boundary(span.end).max(start)
}

/// Everything wrong with a robot file. `Display` shows all of it, each with its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// One entry per problem, in the order of the file; at least one is not a warning.
    pub problems: Vec<Problem>,
    rendered: String,
}

impl ConfigError {
    /// Of the text of a file called `name`.
    pub fn new(problems: Vec<Problem>, text: &str, name: &str) -> Self {
        let rendered: Vec<_> = problems.iter().map(|problem| problem.render(text, name)).collect();
        Self { problems, rendered: rendered.join("\n\n") }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

impl std::error::Error for ConfigError {}
