//! A page and its sections.
use super::markup::Text;
use super::table::figures_html;
use super::{Comparison, Figure, Gantt, KeyValues, Level, Plot, Ranges, Robot, Table, Verdict};
use std::fmt;

/// A self-contained HTML page: one file, no request, works from `file://`.
///
/// Everything given to it is text and is escaped; `to_string()` gives the page.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    subtitle: String,
    badges: Vec<(Level, String)>,
    pub(super) verdict: Option<Verdict>,
    sections: Vec<Section>,
}

/// A heading, some words, and blocks.
#[derive(Debug, Clone)]
pub struct Section {
    title: String,
    text: String,
    blocks: Vec<Block>,
}

/// What a section can hold; each kind comes by `into()`.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Headline figures.
    Figures(Vec<Figure>),
    /// A plot.
    Plot(Plot),
    /// Plots side by side, as many in a row as fit.
    Grid(Vec<Plot>),
    /// Bars over time.
    Gantt(Gantt),
    /// Percentiles per device.
    Ranges(Ranges),
    /// The robot as its joints hold it.
    Robot(Robot),
    /// A table.
    Table(Table),
    /// Keys and values.
    KeyValues(KeyValues),
    /// Runs side by side.
    Comparison(Comparison),
    /// A text in a fixed-width font that the reader unfolds, with its title: a configuration.
    Listing(String, String),
    /// Blocks the reader unfolds, with their title. Plots in it are drawn once it is open.
    Fold(String, Vec<Block>),
}

macro_rules! blocks {
    ($($kind:ident: $from:ty),*) => {
        $(impl From<$from> for Block {
            fn from(block: $from) -> Self { Self::$kind(block) }
        })*
    };
}
blocks!(Figures: Vec<Figure>, Plot: Plot, Grid: Vec<Plot>, Gantt: Gantt, Ranges: Ranges, Robot: Robot, Table: Table,
        KeyValues: KeyValues, Comparison: Comparison);

/// The colours of all pages, light and dark: CSS.
pub const PALETTE: &str = include_str!("assets/colours.css");
/// How all pages write numbers, choose the marks of an axis, and size and colour what they draw: JavaScript, the first of a page.
pub const NUMBERS: &str = include_str!("assets/shared.js");
/// What draws a chart, and has it read and zoomed, after [`NUMBERS`]: JavaScript.
pub const CHART: &str = include_str!("assets/chart.js");
/// What a chart looks like beside its canvas, after [`PALETTE`]: CSS.
pub const CHART_STYLE: &str = include_str!("assets/chart.css");
/// The robot drawn by the angles of its joints, after [`NUMBERS`]: JavaScript.
pub const SKELETON: &str = include_str!("assets/skeleton.js");
const STYLE: &str = concat!(
    include_str!("assets/colours.css"),
    include_str!("assets/chart.css"),
    include_str!("assets/page.css")
);
const SCRIPT: &str = concat!(
    include_str!("assets/shared.js"),
    include_str!("assets/chart.js"),
    include_str!("assets/skeleton.js"),
    include_str!("assets/page.js")
);

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Self {
        let title = title.into();
        Self { title, subtitle: String::new(), badges: Vec::new(), verdict: None, sections: Vec::new() }
    }

    /// A line under the title.
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// Adds a verdict beside the title.
    pub fn badge(mut self, level: Level, text: impl Into<String>) -> Self {
        self.badges.push((level, text.into()));
        self
    }

    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }
}

impl Section {
    /// A section without blocks. Without a title it has no heading, and is not in the list of sections.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), text: String::new(), blocks: Vec::new() }
    }

    /// The same section under another heading.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The words under the heading: what is seen here and how to read it.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds a block.
    pub fn with(mut self, block: impl Into<Block>) -> Self {
        self.blocks.push(block.into());
        self
    }

    /// Adds a block when there is one.
    pub fn with_some(self, block: Option<impl Into<Block>>) -> Self {
        match block {
            Some(block) => self.with(block),
            None => self,
        }
    }

    fn html(&self, out: &mut dyn fmt::Write, at: usize) -> fmt::Result {
        match self.title.as_str() {
            "" => write!(out, "<section id=\"s{at}\" class=\"untitled\">")?,
            title => write!(out, "<section id=\"s{at}\"><h2>{}</h2>", Text(title))?,
        }
        if !self.text.is_empty() {
            write!(out, "<p>{}</p>", Text(&self.text))?;
        }
        self.blocks.iter().try_for_each(|block| block.html(out))?;
        writeln!(out, "</section>")
    }
}

impl Block {
    fn html(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::Text(text) => writeln!(out, "<p>{}</p>", Text(text)),
            Self::Figures(figures) => figures_html(figures, out),
            Self::Plot(plot) => plot.html(out),
            Self::Grid(plots) => {
                write!(out, "<div class=\"grid\">")?;
                plots.iter().try_for_each(|plot| plot.html(out))?;
                writeln!(out, "</div>")
            }
            Self::Gantt(gantt) => gantt.html(out),
            Self::Ranges(ranges) => ranges.html(out),
            Self::Robot(robot) => robot.html(out),
            Self::Table(table) => table.html(out),
            Self::KeyValues(pairs) => pairs.html(out),
            Self::Comparison(comparison) => comparison.html(out),
            Self::Listing(title, text) => {
                let (title, text) = (Text(title), Text(text));
                writeln!(out, "<details><summary>{title}</summary><pre>{text}</pre></details>")
            }
            Self::Fold(title, blocks) => {
                write!(out, "<details class=\"fold\"><summary>{}</summary>", Text(title))?;
                blocks.iter().try_for_each(|block| block.html(out))?;
                writeln!(out, "</details>")
            }
        }
    }
}

/// The first lines of every page. The policy lets nothing be loaded from anywhere.
const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="kilohertz">
<link rel="icon" href="data:,">
"#;

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Text(&self.title);
        write!(
            f,
            "{HEAD}<title>{title}</title>\n<style>{STYLE}</style></head><body>\n<header><h1>{title}</h1>"
        )?;
        // The sentence is shown once: not again in few words beside it.
        let verdict = self.verdict.iter().filter(|verdict| !verdict.repeats_its_headline());
        let verdict = verdict.map(|verdict| (&verdict.level, &verdict.headline));
        for (level, text) in verdict.chain(self.badges.iter().map(|(level, text)| (level, text))) {
            write!(f, "<span class=\"badge {}\">{}</span>", level.class(), Text(text))?;
        }
        if let Some(Verdict { level, text, .. }) = &self.verdict {
            write!(f, "<p class=\"verdict {}\">{}</p>", level.class(), Text(text))?;
        }
        if !self.subtitle.is_empty() {
            write!(f, "<p>{}</p>", Text(&self.subtitle))?;
        }
        write!(f, "<nav>")?;
        let titled = |(_, section): &(usize, &Section)| !section.title.is_empty();
        for (at, section) in self.sections.iter().enumerate().filter(titled) {
            write!(f, "<a href=\"#s{at}\">{}</a>", Text(&section.title))?;
        }
        writeln!(f, "</nav></header>\n<main>")?;
        writeln!(
            f,
            "<noscript><p>The plots need JavaScript; tables and bars are complete without.</p></noscript>"
        )?;
        for (at, section) in self.sections.iter().enumerate() {
            section.html(f, at)?;
        }
        writeln!(f, "</main>\n<script>{SCRIPT}</script>\n</body></html>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_hostile_words_has_only_our_elements() {
        let evil = "\"'></title></script></style><script>alert(1)</script><img src=x onerror=alert(1)>";
        let section = Section::new(evil)
            .text(evil)
            .with(Block::Text(evil.into()))
            .with(Block::Listing(evil.into(), evil.into()))
            .with(vec![Figure::new(evil, evil).note(evil)])
            .with(KeyValues::new(evil).pair(evil, evil).judged(evil, evil, Level::Bad))
            .with(Ranges::new(evil, evil).note(evil).row(evil, [1.0, 2.0, f64::NAN, 3.0]))
            .with(Gantt::new(evil).note(evil).sequence(evil, [(evil.to_string(), 5.0)]).mark(1.0, evil));
        let page = Page::new(evil).subtitle(evil).badge(Level::Good, evil).section(section).to_string();
        let body = page.split_once("<body>").map_or("", |p| p.1);
        let body = body.rsplit_once("<script>").map_or("", |p| p.0);
        assert!(!body.is_empty() && !body.contains("<script>") && !body.contains("<img"));
    }

    #[test]
    fn the_assets_do_not_end_their_element_and_load_nothing() {
        assert!(!STYLE.contains("</") && !STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("fetch(") && !SCRIPT.contains("import("));
    }
}
