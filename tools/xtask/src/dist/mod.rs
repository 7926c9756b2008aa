//! `cargo xtask dist`: makes and tests the release files.
//!
//! ```text
//! target/dist/pages/                  man pages and completions, generated from the command line
//! target/dist/tree/PACKAGE/           a program, stripped, and all that is installed with it
//! target/dist/PACKAGE_VERSION_ARCH.deb   that tree as a Debian package
//! target/dist/PACKAGE-VERSION-ARCH-linux.tar.gz   and for other systems
//! target/dist/PACKAGE-VERSION.debug   the stripped symbols, for reading a crash
//! target/dist/container/root/         the root file system of the image: deploy/container/Containerfile
//! ```
//!
//! PACKAGE is `loligo`, the server and the tools of its operator, or `loligo-lab`, the laboratory. The image has only the first.
//!
//! `--probe` installs the package in a clean root, and runs its programs and the image; [`probe`].
//! Reasons for this way of packing: docs/decisions/0060.
//!
//! Limits: it packs for the machine it runs on. Needs `dpkg-deb` and binutils.

mod booted;
mod clean_root;
mod container;
mod debian;
mod licences;
mod probe;
mod program;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::failure::{During, Result, fail};
use crate::rivals;
use crate::workspace;

/// Version of the packages: the workspace's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where to, and whether to try it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cargo xtask dist
  cargo xtask dist --probe                                as root: installs, runs, removes, purges it in a clean root
  cargo xtask release && cargo xtask --binary target/pgo/x86_64-unknown-linux-gnu/release/loligo dist

--binary packs a program that is there; without it the release build is made. In either case man pages and completions come from this
workspace, whose command line is built for them (with --binary as a debug build): PROGRAM should be of the same commit.")]
pub struct Options {
    /// Where the packages go [default: target/dist]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Who answers for the package
    #[arg(long, default_value = "Loligo developers <loligo@packages.invalid>")]
    maintainer: String,
    /// Install, run, remove and purge the package in a clean root, and run the image; needs root and a Debian
    #[arg(long)]
    probe: bool,
}

/// Makes all files, and prints their sizes.
pub fn run(options: &Options) -> Result<()> {
    rivals::build_loligo()?;
    rivals::build_lab()?;
    let out = match &options.out {
        Some(out) => out.clone(),
        None => workspace::target_dir().join("dist"),
    };
    fs::create_dir_all(&out).during(|| format!("making {}", out.display()))?;
    let out = out
        .canonicalize()
        .during(|| "looking for the folder".into())?;
    let pages = out.join("pages");
    write_pages(&pages)?;
    let [loligo, lab] = [
        (&debian::LOLIGO, rivals::loligo_binary()),
        (&debian::LAB, rivals::lab_binary()),
    ]
    .map(|(package, built)| make(package, &built, &out, &pages, &options.maintainer));
    let (loligo, lab) = (loligo?, lab?);
    let image = out.join("container/root");
    let libraries = container::lay_out(&image, &loligo.program, &loligo.licences)?;
    println!(
        "image               {:>11} bytes  {} ({libraries} bytes of it the C library)",
        bytes_under(&image)?,
        image.display()
    );
    if options.probe {
        probe::run(&out, &loligo.deb, &lab.deb, &image)?;
    }
    Ok(())
}

/// The files made for a package.
struct Made {
    /// The program, stripped.
    program: PathBuf,
    deb: PathBuf,
    licences: String,
}

/// Makes a package, and prints its size.
fn make(
    package: &Package,
    built: &Path,
    out: &Path,
    pages: &Path,
    maintainer: &str,
) -> Result<Made> {
    let name = package.name;
    let program = out.join(name);
    let debug = out.join(format!("{name}-{VERSION}.debug"));
    program::strip(built, &program, &debug)?;
    let licences = licences::collect(name)?;
    let tree = out.join("tree").join(name);
    lay_out(package, &tree, &program, pages, &licences)?;
    let deb = debian::pack(package, &tree, out, &program, maintainer)?;
    let arch = program::architecture();
    let tarball = out.join(format!("{name}-{VERSION}-{arch}-linux.tar.gz"));
    pack_tarball(&tree, &tarball)?;
    println!("{name}");
    for (what, path) in [
        ("program, as built", built),
        ("program, stripped", &program),
        ("Debian package", &deb),
        ("archive", &tarball),
    ] {
        let size = fs::metadata(path).map_or(0, |it| it.len());
        println!("  {what:<18}{size:>11} bytes  {}", path.display());
    }
    Ok(Made {
        program,
        deb,
        licences,
    })
}

/// Runs the example of the crate `loligo-lab` that knows the command lines. It is built with the programs' profile if these are built
/// here; otherwise with the profile that builds fastest.
fn write_pages(folder: &Path) -> Result<()> {
    empty(folder)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["run", "--package", "loligo-lab", "--example", "pages"]);
    if rivals::loligo_is_given() {
        eprintln!(
            "building the command line of this workspace, without optimisation, for man pages and completions; the program that is \
             packed is {}",
            rivals::loligo_binary().display()
        );
    } else {
        run.arg("--release");
    }
    let status = run
        .arg("--")
        .arg(folder)
        .current_dir(workspace::root())
        .status()
        .during(|| "running cargo".into())?;
    if !status.success() {
        fail!("man pages and completions cannot be made: see above");
    }
    Ok(())
}

/// A package: a program, and what is installed with it.
pub struct Package {
    /// The name of the package, its program and its crate.
    name: &'static str,
    /// Files of the repository and where they are installed.
    files: &'static [(&'static str, &'static str)],
    /// Its pages, in the folder of generated ones.
    man: &'static str,
    /// Its completions, in the same folder, and the paths where shells look for them.
    completions: &'static [(&'static str, &'static str)],
    debian: debian::Control,
}

fn lay_out(
    package: &Package,
    tree: &Path,
    program: &Path,
    pages: &Path,
    licences: &str,
) -> Result<()> {
    let name = package.name;
    empty(tree)?;
    install(program, &tree.join("usr/bin").join(name), 0o755)?;
    for (from, to) in package.files {
        install(&workspace::root().join(from), &tree.join(to), 0o644)?;
    }
    for page in files_in(&pages.join(package.man))? {
        let file = page.file_name().unwrap_or_default();
        install(&page, &tree.join("usr/share/man/man1").join(file), 0o644)?;
    }
    for (from, to) in package.completions {
        let from = pages.join("completions").join(from);
        install(&from, &tree.join("usr/share").join(to), 0o644)?;
    }
    let copyright = tree.join(format!("usr/share/doc/{name}/copyright"));
    write(&copyright, licences, 0o644)
}

fn pack_tarball(tree: &Path, to: &Path) -> Result<()> {
    let date = format!("--mtime=@{}", program::commit_seconds());
    let owner = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"];
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(tree).args(owner).arg(date);
    done(tar.arg("-czf").arg(to).arg("."))
}

/// Runs a command that must not fail; shows its error output.
fn done(command: &mut Command) -> Result<()> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let status = command.status().during(|| format!("running {shown}"))?;
    if !status.success() {
        fail!("{command:?}: {status}");
    }
    Ok(())
}

/// The output of a command that must not fail.
fn said(command: &mut Command) -> Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().during(|| format!("running {shown}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        fail!("{command:?}: {}: {}", output.status, why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes a folder, or empties it.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).during(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).during(|| format!("making {}", folder.display()))
}

/// Copies a file, following links, with the folders above it.
fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let content = fs::read(from).during(|| format!("reading {}", from.display()))?;
    write(to, content, mode)
}

fn write(to: &Path, content: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let put = || -> std::io::Result<()> {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(to, content)?;
        fs::set_permissions(to, fs::Permissions::from_mode(mode))
    };
    put().during(|| format!("writing {}", to.display()))
}

/// Files of a folder, in order.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).during(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

/// Bytes of all files below.
fn bytes_under(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for path in files_in(folder)? {
        let about =
            fs::symlink_metadata(&path).during(|| format!("looking at {}", path.display()))?;
        sum += if about.is_dir() {
            bytes_under(&path)?
        } else {
            about.len()
        };
    }
    Ok(sum)
}
