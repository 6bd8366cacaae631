//! Damaged files, kept in the directory `damaged` so that they can be examined.

use keyspan_model::Result;

use super::Files;

/// Where damaged files are put.
pub const DAMAGED: &str = "damaged";

/// Links a damaged file into the directory, durably; the file itself stays. Returns a sentence for the report.
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
