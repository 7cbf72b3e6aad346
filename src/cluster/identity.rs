//! The id of this member: set by the operator, given by Kubernetes, kept in a file, or random.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::chance::random_bits;
use crate::settings::{Settings, member_id};
use crate::state_dir;

/// The variable with the name of the process's pod.
const POD_NAME: &str = "POD_NAME";
/// The file of the id in `service.state_dir`.
const FILE: &str = "member-id";
/// Most bytes that are read of the file: more than an id has.
const FILE_BYTES: u64 = 256;

/// Returns the id of this member.
pub(super) fn of_this_process(settings: &Settings) -> anyhow::Result<String> {
    if let Some(id) = &settings.cluster.id {
        return Ok(id.clone());
    }
    if let Ok(pod) = std::env::var(POD_NAME) {
        member_id(&pod).map_err(|why| anyhow::anyhow!("the variable {POD_NAME} {why}"))?;
        return Ok(pod);
    }
    match &settings.service.state_dir {
        Some(folder) => kept_in(folder),
        None => Ok(random_id()),
    }
}

fn random_id() -> String {
    format!("member-{:08x}", random_bits() >> 96)
}

/// Reads the id in a folder, or makes one and keeps it there.
fn kept_in(folder: &Path) -> anyhow::Result<String> {
    let path = folder.join(FILE);
    let named = |verb: &str| format!("`service.state_dir`: cannot {verb} `{}`", path.display());
    state_dir::make_folder_of(&path)?;
    match File::open(&path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(FILE_BYTES).read_to_string(&mut text).with_context(|| named("read"))?;
            let id = text.trim_end();
            let mistake = |why| anyhow::anyhow!("the id in `{}` {why}", path.display());
            member_id(id).map_err(mistake)?;
            Ok(id.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = random_id();
            // A file with half of an id would be another id.
            let written = state_dir::replace(&path, |file| writeln!(file, "{id}"));
            written.with_context(|| named("write"))?;
            Ok(id)
        }
        Err(error) => Err(error).with_context(|| named("read")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_id_is_kept_between_two_starts() {
        let folder = std::env::temp_dir().join(format!("monoceros-state-{}", std::process::id()));
        let first = kept_in(&folder.join("deeper")).unwrap();
        assert!(first.starts_with("member-"), "{first}");
        assert_eq!(kept_in(&folder.join("deeper")).unwrap(), first);
        fs::write(folder.join(FILE), "two words\n").unwrap();
        let error = kept_in(&folder).unwrap_err().to_string();
        assert!(error.contains("(`two words`) is not 1 to 128 letters"), "{error}");
        let error = format!("{:#}", kept_in(&folder.join(FILE)).unwrap_err());
        assert!(error.contains("`service.state_dir`: cannot make the folder"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
