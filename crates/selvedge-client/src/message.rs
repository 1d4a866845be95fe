//! The wire format of server-sent events.

/// One message of an event stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The type of the event.
    pub event: String,
    /// The id, from which the stream can be resumed. Empty if the message has none.
    pub id: String,
    /// The data, JSON in all streams of Selvedge.
    pub data: String,
}

/// Reads messages from the bytes of a response, in whatever pieces they arrive.
#[derive(Debug, Default)]
pub struct MessageReader {
    line: Vec<u8>,
    message: Message,
    has_data: bool,
}

impl MessageReader {
    /// Takes further bytes. Returns the messages that they complete.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                messages.extend(self.read_line(line.trim_end_matches(['\n', '\r'])));
            }
        }
        messages
    }

    fn read_line(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.message.event),
            "id" => value.clone_into(&mut self.message.id),
            "data" => {
                if self.has_data {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
                self.has_data = true;
            }
            // Comments, which have an empty name, and fields of later versions.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_however_their_bytes_are_split() {
        let text = ": hello\n\nevent: a\nid: 1\ndata: {\"x\":\ndata: 2}\n\nid: 2\r\ndata:y\r\n\r\nevent: lost\ndata: no end";
        let message = |event: &str, id: &str, data: &str| Message {
            event: event.into(),
            id: id.into(),
            data: data.into(),
        };
        let expected = [message("a", "1", "{\"x\":\n2}"), message("", "2", "y")];
        for size in 1..text.len() {
            let mut reader = MessageReader::default();
            let messages: Vec<Message> =
                text.as_bytes().chunks(size).flat_map(|chunk| reader.read(chunk)).collect();
            assert_eq!(messages, expected, "in chunks of {size}");
        }
    }
}
