//! The list of all keys, as the second half of `docs/configuration.md`.

use crate::key::{Key, Shape};
use std::fmt::Write;

/// A heading, what the table is for, and its keys.
pub type Documented = (&'static str, &'static [&'static str], &'static [Key]);

/// Every key with its values, default and meaning, as Markdown.
pub fn reference(sections: &[Documented]) -> String {
    let mut text = String::new();
    for (heading, about, keys) in sections {
        let about = sentence(about);
        // The source begins with the table's name, which the heading has already.
        let about = about.strip_prefix(&format!("{heading}: ")).unwrap_or(&about);
        let (first, rest) = about.split_at(about.chars().next().map_or(0, char::len_utf8));
        let _ = writeln!(text, "### {heading}\n\n{}{rest}\n", first.to_uppercase());
        text.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in *keys {
            let _ =
                writeln!(text, "| `{}` | {} | {} | {} |", key.name, values(key), default(key), meaning(key));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// The lines of a documentation comment as one line.
pub fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn values(key: &Key) -> String {
    if matches!(key.shape, Shape::Words(_)) { "one of those listed".to_owned() } else { key.expected() }
}

fn default(key: &Key) -> String {
    match key.default_text() {
        _ if key.required => "**required**".to_owned(),
        default if default.is_empty() => "–".to_owned(),
        default => format!("`{default}`"),
    }
}

fn meaning(key: &Key) -> String {
    let words = key.shape.words().iter().map(|(word, doc)| format!("<br>`\"{word}\"`: {}", sentence(doc)));
    // A bar would end the cell.
    (sentence(key.doc) + &words.collect::<String>()).replace('|', "\\|")
}
