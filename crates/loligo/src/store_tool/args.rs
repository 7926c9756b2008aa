//! The command line of `loligo store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Make an empty store in a new file or on a block device
    #[command(after_help = INIT_EXAMPLES)]
    Init(InitFlags),
    /// Tell what a store is, how it was left, and how a start would go
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectFlags),
    /// List what is stored
    #[command(after_help = LS_EXAMPLES)]
    Ls(LsFlags),
    /// Print a stored response
    #[command(after_help = GET_EXAMPLES)]
    Get(GetFlags),
    /// Read every record and tell which are damaged
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyFlags),
    /// Remove what is stored, for good
    #[command(
        after_help = RM_EXAMPLES,
        override_usage = "loligo store rm <PATH> <URL | --prefix <URL> | --all> [--json]"
    )]
    Rm(RmFlags),
}

/// Help shown below the list of commands.
pub const STORE_HELP: &str = "\
Stores can be read while no proxy uses them. inspect, ls, get and verify change nothing.

  loligo store init /var/cache/loligo.store --size 10GiB
  loligo store inspect /var/cache/loligo.store
  loligo store ls /var/cache/loligo.store --prefix http://www.example.org/
  loligo store get /var/cache/loligo.store http://www.example.org/ --head

Exit status: 0 all is well; 1 what was asked for is not there, or something is damaged; 2
the command line is not understood, or the store cannot be opened: it is in use, is no
store, or of another format version.";

const INIT_EXAMPLES: &str = "\
Examples:
  loligo store init /var/cache/loligo.store --size 10GiB
  loligo store init /dev/disk/by-id/nvme-eui.0123       all of the disk
  loligo store init --force /dev/sdb1                   though something else was on it: that is lost

A disk that is mounted, in use or has partitions is refused, and so is one with the mark of
a file system or of anything else known. --force overrides marks, partitions and an older
store, but never takes a disk in use. A proxy makes its store by itself; init is for
preparing one, and for disks that carry something.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  loligo store inspect /var/cache/loligo.store
  loligo store inspect /var/cache/loligo.store --json | jq .start";

const LS_EXAMPLES: &str = "\
Examples:
  loligo store ls /var/cache/loligo.store --limit 20
  loligo store ls /var/cache/loligo.store --prefix https://www.example.org/img/ --long
  loligo store ls /var/cache/loligo.store --json | jq -r 'select(.status == 404).url'

Columns: status of the response, length of its body, its age (as Age would say), how long it
is still fresh (+) or has been stale (-), the URL. In brackets behind it: the request fields
that select a variant, and how it was reached, if not through a public forward listener: the
route's origin, or a number for the listener's destination rules (see: get --variant, --tag).
In the order of their place on the disk.";

const GET_EXAMPLES: &str = "\
Examples:
  loligo store get /var/cache/loligo.store http://www.example.org/                head and body
  loligo store get /var/cache/loligo.store http://www.example.org/ --head
  loligo store get /var/cache/loligo.store http://www.example.org/a.iso --body -o a.iso
  loligo store get /var/cache/loligo.store http://www.example.org/ --variant 'Accept-Encoding: gzip'

What `ls` prints in brackets goes to --variant (once for each field) and --tag.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  loligo store verify /var/cache/loligo.store
  loligo store verify /var/cache/loligo.store --json | jq .damaged

Nothing is repaired: the proxy finds a damaged record when it reads it, counts a miss and
fetches the object again. Objects whose fragments were evicted are not damaged; they are
counted, and are misses.";

const RM_EXAMPLES: &str = "\
Examples:
  loligo store rm /var/cache/loligo.store http://www.example.org/
  loligo store rm /var/cache/loligo.store --prefix http://www.example.org/img/
  loligo store rm /var/cache/loligo.store --all

All variants of a URL are removed with it. The command ends after the store's log is
flushed, so a removed object does not come back, whatever happens. A running proxy purges
by its admin interface: curl -X PURGE http://127.0.0.1:3129/URL";

#[derive(Args, Debug)]
pub struct InitFlags {
    /// The file, or the block device
    pub path: PathBuf,
    /// Its size, such as 10GiB; of a block device a part [default there: all of it]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Unit of allocation, a power of two from 512 to 65536; the store keeps it
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "512")]
    pub chunk: u64,
    /// Whatever is on it now, another store included, is not needed
    #[arg(long)]
    pub force: bool,
    /// One JSON object, for machines
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct InspectFlags {
    /// The store: file or block device
    pub path: PathBuf,
    /// One JSON object, for machines
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct LsFlags {
    /// The store: file or block device
    pub path: PathBuf,
    /// Only URLs that begin so
    #[arg(long, value_name = "URL")]
    pub prefix: Option<String>,
    /// So many at most
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Also when it was stored, its type, fragments and place
    #[arg(long)]
    pub long: bool,
    /// One JSON object a line, for machines
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct GetFlags {
    /// The store: file or block device
    pub path: PathBuf,
    /// As `ls` prints it
    pub url: String,
    /// A request field that selects the variant; may be repeated
    #[arg(long, value_name = "FIELD: VALUE", value_parser = field)]
    pub variant: Vec<(String, String)>,
    /// How it was reached, as `ls` prints it; of several variants this one
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// To this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The head only
    #[arg(long, conflicts_with = "body")]
    pub head: bool,
    /// The body only
    #[arg(long)]
    pub body: bool,
    /// One JSON object about it, without the body
    #[arg(long, conflicts_with_all = ["head", "body"])]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct VerifyFlags {
    /// The store: file or block device
    pub path: PathBuf,
    /// One JSON object, for machines
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct RmFlags {
    /// The store: file or block device
    pub path: PathBuf,
    #[command(flatten)]
    pub what: What,
    /// One JSON object, for machines
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct What {
    /// One URL, with all its variants
    pub url: Option<String>,
    /// Every URL that begins so
    #[arg(long, value_name = "URL")]
    pub prefix: Option<String>,
    /// Everything
    #[arg(long)]
    pub all: bool,
}

fn size(text: &str) -> Result<u64, String> {
    commands::units::parse_size(text)
        .ok_or_else(|| format!("must be {}", commands::units::SIZE_FORM))
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .filter(|(name, _)| !name.trim().is_empty())
        .ok_or("must be a field such as \"Accept-Encoding: gzip\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
