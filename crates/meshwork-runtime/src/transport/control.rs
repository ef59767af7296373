//! Control messages between processes: who waits for whom, who failed, who has ended.

/// A control message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ControlMessage {
    /// What are you waiting for?
    Ask,
    /// For this process, in this operation.
    Waits { for_rank: usize, text: String },
    /// Run `run` has failed at the sender.
    Failed { run: u64, text: String },
    /// The sender knows that run `run` has failed, and sends nothing more for it.
    Over { run: u64 },
    /// The job is broken: all processes end with this message.
    Broken(String),
    /// The sender's program has ended.
    Left,
}

impl ControlMessage {
    pub(crate) fn write(&self) -> Vec<u8> {
        let (kind, number, text) = match self {
            ControlMessage::Ask => (0, 0, ""),
            ControlMessage::Waits { for_rank, text } => (1, *for_rank as u64, &text[..]),
            ControlMessage::Failed { run, text } => (2, *run, &text[..]),
            ControlMessage::Over { run } => (3, *run, ""),
            ControlMessage::Broken(text) => (4, 0, &text[..]),
            ControlMessage::Left => (5, 0, ""),
        };
        let mut out = vec![kind];
        out.extend(number.to_le_bytes());
        out.extend(text.as_bytes());
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<ControlMessage> {
        let number = u64::from_le_bytes(bytes.get(1..9)?.try_into().ok()?);
        let text = || String::from_utf8_lossy(&bytes[9..]).into_owned();
        Some(match bytes[0] {
            0 => ControlMessage::Ask,
            1 => ControlMessage::Waits { for_rank: number as usize, text: text() },
            2 => ControlMessage::Failed { run: number, text: text() },
            3 => ControlMessage::Over { run: number },
            4 => ControlMessage::Broken(text()),
            5 => ControlMessage::Left,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let all = [
            ControlMessage::Ask,
            ControlMessage::Waits { for_rank: 3, text: "all-reduce".into() },
            ControlMessage::Failed { run: 1 << 33, text: "ü".into() },
            ControlMessage::Over { run: 2 },
            ControlMessage::Broken("x".into()),
            ControlMessage::Left,
        ];
        for note in all {
            assert_eq!(ControlMessage::read(&note.write()), Some(note));
        }
        assert_eq!(ControlMessage::read(&[]), None);
        assert_eq!(ControlMessage::read(&[9; 12]), None);
    }
}
