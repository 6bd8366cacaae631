//! The memory of the machine, or of the control group that the program runs in.
//!
//! Rule: what a container or a unit of systemd may use counts, not what the machine has: beyond it the kernel ends the
//! program.

use std::path::{Path, PathBuf};

/// Bytes of memory that this program can have at most; `None` where the system does not tell, as outside of Linux.
pub fn memory() -> Option<u64> {
    memory_below(Path::new("/"))
}

fn memory_below(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total = total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limits_of(root, line));
    Some(limits.fold(total, u64::min))
}

/// The limits of a group and of all above it. Lines are `0::/path` (version 2) or `4:memory:/path` (version 1). In a
/// container the path may be that of the host: then only the root is there, which is the container's own group.
fn limits_of(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':');
    let (Some(number), Some(kinds), Some(path)) = (parts.next(), parts.next(), parts.next()) else { return Vec::new() };
    let (mount, file) = match kinds {
        "" if number == "0" => ("sys/fs/cgroup", "memory.max"),
        kinds if kinds.split(',').any(|kind| kind == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    let files = groups.map(|group| root.join(mount).join(group).join(file));
    // Without a limit it says `max`, which is no number, or more than any machine has.
    files.filter_map(|file: PathBuf| std::fs::read_to_string(file).ok()?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        memory_below(root.path())
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree:         123 kB\n");

    #[test]
    fn without_a_group_the_machine_counts() {
        assert_eq!(memory_with(&[MACHINE]), Some(8 << 30));
        assert_eq!(memory_with(&[]), None, "another system");
        assert!(!cfg!(target_os = "linux") || memory().is_some_and(|bytes| bytes > 64 << 20));
    }

    #[test]
    fn the_narrowest_group_counts() {
        let unit = ("proc/self/cgroup", "0::/system.slice/keyspan.service\n");
        let of_unit = ("sys/fs/cgroup/system.slice/keyspan.service/memory.max", "max\n");
        let of_slice = ("sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
        assert_eq!(memory_with(&[MACHINE, unit, of_unit, of_slice]), Some(2 << 30));
        assert_eq!(memory_with(&[MACHINE, unit, of_unit]), Some(8 << 30), "no limit");
        let container = ("sys/fs/cgroup/memory.max", "1073741824\n");
        assert_eq!(memory_with(&[MACHINE, unit, container]), Some(1 << 30), "its path is the host's");
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let groups = ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n");
        let limit = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory_with(&[MACHINE, groups, limit, none]), Some(512 << 20));
        assert_eq!(memory_with(&[MACHINE, groups, none]), Some(8 << 30));
    }
}
