//! Where answers are written: the screen, through a pager if they are long, a file, or a program.
//!
//! The rule: a pager begins only where a person looks at a terminal, and leaving it ends the answer, not the shell. A
//! line that shows how long a statement runs is gone before anything is written.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::style::Pager;
use crate::failure::{Failure, Result};
use crate::progress::grouped;

/// How long a statement runs before a line shows it.
const QUIET: Duration = Duration::from_secs(1);
/// How often that line is written anew.
const TICK: Duration = Duration::from_millis(200);

/// Where answers are written.
pub enum Out {
    /// The program's output.
    Screen(Screen),
    /// A file, by its name.
    File(BufWriter<File>),
    /// A program's input.
    Program(Piped),
}

impl Out {
    /// The program's output, through the pager where a terminal is.
    pub fn screen(activity: Arc<Activity>) -> Out {
        let height = io::stdout().is_terminal().then(height);
        Out::Screen(Screen { stdout: BufWriter::new(io::stdout()), activity, height, paged: None })
    }

    /// A file, or the input of a program: `|less`.
    pub fn to(target: &str) -> Result<Out> {
        match target.strip_prefix('|') {
            Some(command) => Ok(Out::Program(Piped::new(command)?)),
            None => {
                let file = File::create(target).map_err(|error| Failure::from(error).context(target))?;
                Ok(Out::File(BufWriter::new(file)))
            }
        }
    }

    /// An answer begins.
    pub(super) fn begin(&mut self, pager: Pager) {
        if let Out::Screen(screen) = self {
            screen.begin(pager);
        }
    }

    /// The answer is whole.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Out::Screen(screen) => screen.finish(),
            other => other.flush(),
        }
    }

    /// Nothing more is written: waits for the program to end.
    pub fn close(mut self) -> Result<()> {
        self.flush()?;
        match self {
            Out::Program(piped) => piped.wait(),
            _ => Ok(()),
        }
    }

    /// Whether someone left the pager before the end of the answer, since this was last asked.
    pub fn was_left(&mut self) -> bool {
        match self {
            Out::Screen(screen) => screen.paged.take().is_some_and(|paged| paged.left),
            _ => false,
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Screen(screen) => screen.write(bytes),
            Out::File(file) => file.write(bytes),
            Out::Program(piped) => piped.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Screen(screen) => screen.flush(),
            Out::File(file) => file.flush(),
            Out::Program(piped) => piped.flush(),
        }
    }
}

/// Rows of the terminal.
fn height() -> usize {
    let told = std::env::var("LINES").ok().and_then(|lines| lines.parse().ok());
    told.or_else(|| console::Term::stdout().size_checked().map(|(rows, _)| usize::from(rows))).unwrap_or(24)
}

/// Columns of the terminal.
pub fn columns_of_terminal() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns))
}

/// A program that reads what is written. One that ends before the answer, as `head` does, has read what it needs.
pub struct Piped {
    input: Option<BufWriter<std::process::ChildStdin>>,
    child: Child,
}

impl Piped {
    fn new(command: &str) -> Result<Piped> {
        let started = Command::new("sh").arg("-c").arg(command).stdin(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| Failure::from(error).context(command))?;
        Ok(Piped { input: child.stdin.take().map(BufWriter::new), child })
    }

    fn wait(mut self) -> Result<()> {
        drop(self.input.take());
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("the program ended with {status}"))) }
    }
}

impl Piped {
    /// Does something with the program's input, until nobody reads it.
    fn with_input<T>(&mut self, read: T, work: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
        match self.input.as_mut().map(|input| work(input)) {
            Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.input = None;
                Ok(read)
            }
            Some(result) => result,
            None => Ok(read),
        }
    }
}

impl Write for Piped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with_input(bytes.len(), |input| input.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with_input((), |input| input.flush())
    }
}

/// The program's output.
pub struct Screen {
    stdout: BufWriter<io::Stdout>,
    activity: Arc<Activity>,
    /// Lines of the terminal, if it is one.
    height: Option<usize>,
    paged: Option<Paged>,
}

/// An answer that may become long.
struct Paged {
    /// What has been written before it was known to be.
    waiting: Vec<u8>,
    lines: usize,
    most: usize,
    pager: Option<Piped>,
    /// Whether the pager has ended before the answer.
    left: bool,
}

impl Screen {
    fn begin(&mut self, pager: Pager) {
        let most = match (self.height, pager) {
            (None, _) | (_, Pager::Off) => return,
            (_, Pager::Always) => 0,
            (Some(height), Pager::On) => height,
        };
        self.paged = Some(Paged { waiting: Vec::new(), lines: 0, most, pager: None, left: false });
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.paged.take() {
            Some(Paged { pager: Some(pager), .. }) => {
                // Who has left the pager has seen enough.
                let _ = pager.wait();
            }
            Some(paged) => self.stdout.write_all(&paged.waiting)?,
            None => {}
        }
        self.stdout.flush()
    }
}

impl Paged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.pager.is_none() {
            self.waiting.extend_from_slice(bytes);
            self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            if self.lines < self.most {
                return Ok(());
            }
            self.pager = Some(Piped::new(&pager_command()).map_err(|failure| io::Error::other(failure.message))?);
        }
        let bytes = if self.waiting.is_empty() { bytes.to_vec() } else { std::mem::take(&mut self.waiting) };
        let input = self.pager.as_mut().and_then(|pager| pager.input.as_mut());
        let written = input.map_or(Ok(()), |input| input.write_all(&bytes));
        self.left |= written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        written
    }
}

/// less cuts long lines instead of folding them. Containers may not have it.
const PAGER: &str = "if command -v less >/dev/null; then LESS=${LESS--FRSX} less; else cat; fi";

/// `$KEYSPAN_PAGER`, `$PSQL_PAGER`, `$PAGER`, or less.
fn pager_command() -> String {
    let named = ["KEYSPAN_PAGER", "PSQL_PAGER", "PAGER"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut named = named.filter(|command| !command.trim().is_empty());
    named.next().unwrap_or_else(|| PAGER.to_string())
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.activity.clear();
        match &mut self.paged {
            Some(paged) => paged.write(bytes).map(|()| bytes.len()),
            None => self.stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.paged {
            Some(_) => Ok(()),
            None => self.stdout.flush(),
        }
    }
}

/// What a statement has done so far, and the line that shows it.
#[derive(Debug, Default)]
pub struct Activity {
    rows: AtomicU64,
    /// Whether the line may be written, and whether it stands there.
    line: Mutex<(bool, bool)>,
}

impl Activity {
    /// Counts rows.
    pub fn rows(&self, count: u64) {
        self.rows.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes the line away; it does not come back for this statement.
    fn clear(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.1 {
            eprint!("\r\x1b[K");
        }
        *line = (false, false);
    }

    fn show(&self, took: Duration) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if !line.0 {
            return;
        }
        line.1 = true;
        let rows = match self.rows.load(Ordering::Relaxed) {
            0 => String::new(),
            rows => format!(", {} rows", grouped(rows)),
        };
        eprint!("\r\x1b[K{:.1} s{rows} (Ctrl-C ends it)", took.as_secs_f64());
    }

    /// Shows the line once the statement takes long, where a person looks at a terminal, until what is answered is
    /// dropped.
    pub fn watched(self: &Arc<Activity>) -> Option<Watch> {
        if !(io::stderr().is_terminal() && io::stdout().is_terminal() && io::stdin().is_terminal()) {
            return None;
        }
        self.rows.store(0, Ordering::Relaxed);
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = (true, false);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (activity, started) = (Arc::clone(self), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut wait = QUIET;
            while stopped.recv_timeout(wait).is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout) {
                activity.show(started.elapsed());
                wait = TICK;
            }
        });
        Some(Watch { activity: Arc::clone(self), stop: Some(stop), thread: Some(thread) })
    }
}

/// Shows how long a statement runs until it is dropped.
pub struct Watch {
    activity: Arc<Activity>,
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.activity.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_less_shows_answers_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("/bin/cat", folder.path().join("cat")).expect("a link");
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(PAGER).env("PATH", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("a shell");
        child.stdin.take().expect("its input").write_all(b"rows\n").expect("written");
        assert_eq!(child.wait_with_output().expect("ends").stdout, b"rows\n");
    }

    #[test]
    fn a_program_that_stops_reading_is_no_error() {
        let mut out = Out::to("|true").expect("a program");
        for _ in 0..1000 {
            out.write_all(&[b'x'; 4096]).expect("written");
        }
        out.close().expect("it ended well");
    }
}
