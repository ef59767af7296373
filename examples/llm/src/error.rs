//! What can be wrong with a model's files, and with what is asked of it.

use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read, or holds something else than it should.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A weight that is not there.
    #[error("{}: there is no weight {name:?}, which a model with {layers} layers of this architecture has", folder.display())]
    NoWeight {
        /// The model's folder.
        folder: PathBuf,
        /// The weight.
        name: String,
        /// The number of layers by `config.json`.
        layers: i64,
    },
    /// A weight of another shape than `config.json` says.
    #[error("{}: weight {name:?} has the shape {found:?}; by config.json it is {wanted:?}", folder.display())]
    Shape {
        /// The model's folder.
        folder: PathBuf,
        /// The weight.
        name: String,
        /// Its shape.
        found: Vec<i64>,
        /// The shape by `config.json`.
        wanted: Vec<i64>,
    },
    /// More tokens than the model was made for.
    #[error(
        "a prompt of {prompt} tokens and {more} more, but the model sees at most {longest}: give a shorter prompt, or ask for fewer tokens"
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// How many are to follow.
        more: usize,
        /// The most that the model sees.
        longest: usize,
    },
    /// A prompt without tokens.
    #[error("the prompt has no tokens; give some text")]
    EmptyPrompt,
    /// An option that makes no sense.
    #[error("{0}")]
    Option(String),
    /// The program, or the arrays of it.
    #[error(transparent)]
    Program(#[from] meshwork::Error),
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Says in which file something went wrong.
pub(crate) fn in_file<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Error {
    move |e| Error::File { path: path.to_path_buf(), what: e.to_string() }
}
