//! XLA's CPU devices, where their plugin is installed.

use meshwork_pjrt::PjrtEngine;

/// XLA's CPU devices by the path in `MESHWORK_XLA_CPU`, which then must work, or by the installed plugin. Without one it
/// says on standard error that a test is skipped.
pub fn cpu() -> Option<PjrtEngine> {
    let path = std::env::var("MESHWORK_XLA_CPU");
    let plugin = path.as_deref().unwrap_or("cpu");
    match PjrtEngine::open(&format!("{plugin},cpu_device_count=20")) {
        Ok(engine) => Some(engine),
        Err(error) if path.is_ok() => panic!("MESHWORK_XLA_CPU: {error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}
