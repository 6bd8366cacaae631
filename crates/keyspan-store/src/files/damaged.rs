//! Damaged files put aside: whoever wants to look at them finds them in the directory `damaged`.

use keyspan_model::Result;

use super::Files;

/// Where damaged files are put.
pub const DAMAGED: &str = "damaged";

/// Puts a copy of a damaged file aside; the file itself is left. Durable. Returns a sentence that says so.
pub fn keep_damaged(files: &dyn Files, path: &str) -> Result<String> {
    files.create_dir(DAMAGED)?;
    let name = path.replace('/', ".");
    let mut aside = format!("{DAMAGED}/{name}");
    let mut number = 2;
    while !files.link(path, &aside)? {
        aside = format!("{DAMAGED}/{name}.{number}");
        number += 1;
    }
    files.sync_dir(DAMAGED)?;
    Ok(format!("file \"{}\" was moved to \"{}\"", files.display(path), files.display(&aside)))
}
