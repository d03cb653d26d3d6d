//! Text in markup.

/// Text as HTML and XML show it, also within attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            letter if is_harmful(letter) && letter != '\n' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Whether a character is not shown, or changes how others are: a control character, which no XML may have,
/// or one that turns the direction of text.
pub fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(escape("<a b=\"c\">'&\u{1}\n"), "&lt;a b=&quot;c&quot;&gt;&apos;&amp;\u{fffd}\n");
        assert_eq!(escape("x\u{202e}pacp.y"), "x\u{fffd}pacp.y");
    }
}
