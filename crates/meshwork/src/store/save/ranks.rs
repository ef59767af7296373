//! The processes that save and restore together.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use meshwork_runtime::Runtime;

use super::error::CheckpointError;
use crate::error::Error;

/// How long to wait for other ranks by default.
const DEADLINE: Duration = Duration::from_secs(60);

/// The ranks that save together, and which devices each has.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    rank: usize,
    size: usize,
    /// Distinguishes the folders of this run from those of others.
    token: String,
    /// How long to wait for other ranks.
    pub deadline: Duration,
    /// Messages between the ranks, if they are processes.
    runtime: Option<Runtime>,
}

impl Ranks {
    /// The processes of this program. All must call it.
    pub(super) fn join() -> Result<Ranks, Error> {
        let runtime = Runtime::init()?;
        let token = runtime.broadcast(0, Ranks::draw().as_bytes())?;
        let token = String::from_utf8_lossy(&token).into_owned();
        let deadline = runtime.deadline().unwrap_or(DEADLINE);
        let (rank, size) = (runtime.rank(), runtime.size());
        Ok(Ranks { rank, size, token, deadline, runtime: Some(runtime).filter(Runtime::is_distributed) })
    }

    /// Ranks that are not processes.
    #[cfg(test)]
    pub(super) fn new(rank: usize, size: usize, token: &str, deadline: Duration) -> Ranks {
        Ranks { rank, size, token: token.into(), deadline, runtime: None }
    }

    /// A token that no other run has.
    pub(super) fn draw() -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        format!("{:x}.{:x}", now, std::process::id())
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The rank that has a device of a mesh of `count`: blocks of consecutive devices, the first ones one longer.
    pub(super) fn rank_of(&self, device: usize, count: usize) -> usize {
        if let Some(runtime) = &self.runtime {
            return runtime.rank_of(device, count);
        }
        let (each, longer) = (count / self.size, count % self.size);
        if device < longer * (each + 1) {
            device / (each + 1)
        } else {
            longer + (device - longer * (each + 1)) / each.max(1)
        }
    }

    /// Whether a rank has died, as far as that can be known without asking it.
    pub(super) fn is_dead(&self, rank: usize) -> bool {
        self.runtime.is_some_and(|runtime| runtime.is_dead(rank))
    }

    /// The text of rank 0, on all ranks.
    pub(super) fn broadcast_from_first(&self, text: String) -> Result<String, Error> {
        let Some(runtime) = &self.runtime else { return Ok(text) };
        Ok(String::from_utf8_lossy(&runtime.broadcast(0, text.as_bytes())?).into_owned())
    }

    /// What became of something that all ranks did with `folder`, the same on all: done, damage that one of them found,
    /// or an error.
    pub(super) fn agree<R>(&self, folder: &Path, mine: Result<R, Error>) -> Result<Result<R, String>, Error> {
        let (said, mine) = match mine {
            Ok(done) => (String::new(), Ok(done)),
            Err(Error::Checkpoint(e)) if e.is_damage() => (format!("D{e}"), Err(None)),
            Err(e) => (format!("E{e}"), Err(Some(e))),
        };
        let all = match &self.runtime {
            Some(runtime) => runtime.all_gather(said.as_bytes())?,
            None => vec![said.into_bytes()],
        };
        let find = |kind: u8| all.iter().position(|text| text.first() == Some(&kind));
        let report = |rank: usize| {
            let text = String::from_utf8_lossy(all[rank].get(1..).unwrap_or_default()).into_owned();
            if all.len() == 1 { text } else { format!("rank {rank}: {text}") }
        };
        match (mine, find(b'E'), find(b'D')) {
            (Err(Some(error)), _, _) => Err(error),
            (_, Some(rank), _) => {
                Err(CheckpointError::Tree { folder: folder.to_path_buf(), what: report(rank) }.into())
            }
            (_, None, Some(rank)) => Ok(Err(report(rank))),
            (Ok(done), None, None) => Ok(Ok(done)),
            // A rank that found damage has reported it.
            (Err(None), None, None) => Ok(Err(String::new())),
        }
    }
}
