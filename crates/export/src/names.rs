//! Names from a log in other files: whoever prints a topic or a heading hands it to a terminal.

use std::borrow::Cow;

/// The name with everything escaped that a terminal obeys: control characters, also line breaks, and what changes the
/// direction of writing. They become `\u001b`, as in JSON.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains(is_obeyed) {
        return name.into();
    }
    let escaped = |c: char| match is_obeyed(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    name.chars().map(escaped).collect::<String>().into()
}

const fn is_obeyed(c: char) -> bool {
    matches!(c, '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
