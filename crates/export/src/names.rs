//! Names from a log in other files: a topic or a heading that is printed reaches a terminal.

use khz_tlog::is_obeyed;
use std::borrow::Cow;

/// The name with everything escaped that a terminal obeys: control characters, also line breaks, and what changes the
/// direction of writing. They become `\u001b`, as in JSON.
pub fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains(is_obeyed) {
        return name.into();
    }
    let escaped = |c: char| match is_obeyed(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    name.chars().map(escaped).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(plain("front_left.größe"), "front_left.größe");
        assert_eq!(plain("a\x1b[2J\nb\u{202e}\u{9b}"), r"a\u001b[2J\u000ab\u202e\u009b");
    }
}
