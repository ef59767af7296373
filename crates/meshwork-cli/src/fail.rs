//! Why a command stops early: what to say and with which status to exit.

use meshwork_eval::EvalError;
use meshwork_ir::{Diagnostic, Severity};
use meshwork_runtime::{LoadError, RunError};

const CHECK_FAILED: u8 = 1;
const ERROR: u8 = 2;
const UNSUPPORTED: u8 = 77;

/// A reason to exit with a status other than zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// What to print on standard error, whole lines; empty if it has been printed.
    pub text: String,
}

impl Failure {
    /// Something is wrong with the input or the way the command was called.
    pub fn error(message: impl AsRef<str>) -> Failure {
        Failure { status: ERROR, text: format!("error: {}\n", message.as_ref()) }
    }

    /// The program is fine but does not keep to what was asked of it.
    pub fn check(message: impl AsRef<str>) -> Failure {
        Failure { status: CHECK_FAILED, text: format!("error: {}\n", message.as_ref().trim_end()) }
    }

    /// What stopped an evaluation, with the line of `source` it is about.
    pub fn from_eval(error: &EvalError, file: &str, source: &str) -> Failure {
        let status = match error {
            EvalError::CheckFailed { .. } => CHECK_FAILED,
            EvalError::Unsupported { .. } => UNSUPPORTED,
            EvalError::Invalid { .. } => ERROR,
        };
        Failure { status, text: error.diagnostic().render(file, source) }
    }

    /// Why an engine does not load a program.
    pub fn from_load(error: LoadError) -> Failure {
        match error {
            LoadError::Unsupported { .. } | LoadError::TooManyDevices { .. } => Failure::unsupported(error.to_string()),
            LoadError::Invalid { .. } | LoadError::Memory(_) | LoadError::Processes(_) => {
                Failure::error(error.to_string())
            }
        }
    }

    /// What stopped a run, with the line of `source` it is about.
    pub fn from_run(error: &RunError, file: &str, source: &str) -> Failure {
        let (op, device, message) = match error {
            RunError::Eval(error) => return Failure::from_eval(error, file, source),
            RunError::Failed { op, device, message } => (op, device, message),
            other => return Failure::error(other.to_string()),
        };
        let on = device.map_or(String::new(), |d| format!(" (on device {d})"));
        let unsupported = message.strip_prefix("not supported: ");
        let (status, severity) = match unsupported {
            Some(_) => (UNSUPPORTED, Severity::Unsupported),
            None if message.starts_with("check failed") => (CHECK_FAILED, Severity::Error),
            None => (ERROR, Severity::Error),
        };
        let diagnostic = op.diagnostic(severity, format!("{}{on}", unsupported.unwrap_or(message)));
        Failure { status, text: diagnostic.render(file, source) }
    }

    /// The program is fine but needs something Meshwork does not do.
    pub fn unsupported(message: impl AsRef<str>) -> Failure {
        Failure { status: UNSUPPORTED, text: format!("not supported: {}\n", message.as_ref()) }
    }

    /// The errors among `diagnostics` about `source`; `None` if there is none.
    ///
    /// It counts as not supported only if nothing in it is plainly wrong.
    pub fn from_diagnostics(diagnostics: &[Diagnostic], file: &str, source: &str) -> Option<Failure> {
        let least = diagnostics.iter().map(|d| d.severity).filter(|&s| s >= Severity::Error).min()?;
        let status = if least == Severity::Unsupported { UNSUPPORTED } else { ERROR };
        Some(Failure { status, text: render_all(diagnostics, file, source) })
    }

    /// The same status for a failure whose text has been printed.
    pub fn printed(self) -> Failure {
        Failure { text: String::new(), ..self }
    }
}

/// Every diagnostic with its source line.
pub fn render_all(diagnostics: &[Diagnostic], file: &str, source: &str) -> String {
    diagnostics.iter().map(|d| d.render(file, source)).collect()
}

#[cfg(test)]
mod tests {
    use meshwork_ir::TextPos;

    use super::*;

    #[test]
    fn wrong_beats_unsupported() {
        let at = TextPos { line: 1, col: 1 };
        let unsupported = Diagnostic::unsupported(at, "b");
        let status = |d: &[Diagnostic]| Failure::from_diagnostics(d, "f", "x").map(|f| f.status);
        assert_eq!(status(&[Diagnostic::warning(at, "w")]), None);
        assert_eq!(status(std::slice::from_ref(&unsupported)), Some(77));
        assert_eq!(status(&[unsupported, Diagnostic::error(at, "a")]), Some(2));
    }
}
