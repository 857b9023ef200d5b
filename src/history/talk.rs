//! Conversations as they are kept: a message a line, as JSON.
//!
//! Pure. Takes the text of a session's log, gives its messages. Knows the form of ReMe's logs and of
//! Claude Code's transcripts; what is no message is passed over.
//!
//! **Invariant:** a damaged line costs that line and no other.

use serde_json::Value;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its line in the log, from 1.
    pub line: u32,
    pub name: String,
    pub role: String,
    /// As the log has it; empty where it says nothing.
    pub when: String,
    pub text: String,
}

/// The messages of a log, in its order.
pub fn messages(log: &str) -> Vec<Message> {
    // Only these end a line of JSON; a message may hold any other separator.
    let lines = log.split('\n').zip(1u32..);
    lines.filter_map(|(text, line)| message(text.trim(), line)).collect()
}

fn message(text: &str, line: u32) -> Option<Message> {
    let row: Value = serde_json::from_str(text).ok()?;
    let said = row.get("message").filter(|it| it.is_object()).unwrap_or(&row);
    let mut words = Vec::new();
    match said.get("content")? {
        Value::String(text) => words.push(text.as_str()),
        Value::Array(blocks) => words.extend(blocks.iter().filter_map(|it| match it {
            Value::String(text) => Some(text.as_str()),
            block => block.get("text")?.as_str(),
        })),
        _ => return None,
    }
    let of = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    let field = |key: &str| of(said, key).or_else(|| of(&row, key));
    let role = field("role").unwrap_or_default();
    let times =
        ["created_at", "time_created", "timestamp", "createdAt", "timeCreated", "created_time"];
    let nested = said.get("metadata");
    let when = times.iter().find_map(|it| field(it).or_else(|| of(nested?, it)));
    Some(Message {
        line,
        name: field("name").unwrap_or_else(|| role.clone()),
        role,
        when: when.unwrap_or_default(),
        text: words.join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_a_damaged_line_is_passed_over() {
        let log = "{\"name\":\"Ada\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\
                   \"tool_call\",\"input\":{}},{\"type\":\"text\",\"text\":\"two\"}],\"role\":\"user\",\
                   \"created_at\":\"2026-06-29T10:00:00\"}\n\
                   {\"name\": \"broken\n\
                   \n\
                   {\"type\":\"assistant\",\"timestamp\":\"2026-06-29T10:01:00Z\",\"message\":{\"role\":\
                   \"assistant\",\"content\":\"three\u{2028}four\"}}\n\
                   {\"role\":\"user\",\"content\":\"five\",\"metadata\":{\"timestamp\":\"then\"}}\n\
                   {\"uuid\":\"no message\"}\n[1]";
        let read: Vec<_> = messages(log)
            .into_iter()
            .map(|it| (it.line, it.name, it.role, it.when, it.text))
            .collect();
        let wanted = [
            (1, "Ada", "user", "2026-06-29T10:00:00", "one\ntwo"),
            (4, "assistant", "assistant", "2026-06-29T10:01:00Z", "three\u{2028}four"),
            (5, "user", "user", "then", "five"),
        ];
        assert_eq!(
            read,
            wanted.map(|it| (it.0, it.1.into(), it.2.into(), it.3.into(), it.4.into()))
        );
    }
}
