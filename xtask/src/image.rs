//! `image`: builds the container image from the Dockerfile and tries it, without a container engine
//! and without a registry: buildah builds, on stand-ins for the base images that are made here.

mod stand_in;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::command::{as_typed, capture, run, which};
use crate::workspace;

const TOOLS: [&str; 3] = ["buildah", "debootstrap", "crun"];
const TAG: &str = "concprobe";

/// buildah with its images in one folder of this repository's target folder.
struct Buildah {
    folder: PathBuf,
}

/// Builds the image, and runs `concprobe --version` and `concprobe doctor` in it.
pub(crate) fn image() -> Result<()> {
    require_tools()?;
    let folder = workspace::target_dir().join("image");
    let buildah = Buildah { folder: folder.clone() };
    run(buildah.command(["rm", "--all"]).stdout(std::process::Stdio::null()))?;
    stand_in::ensure(&folder, &buildah)?;
    let root = workspace::root();
    let mut build = buildah.command(["build-using-dockerfile", "--pull-never", "--tag", TAG, "--file"]);
    run(build.arg(root.join("Dockerfile")).arg(&root))?;
    let container = capture(&mut buildah.command(["from", "--pull-never", TAG]))?;
    let tried = try_out(&buildah, container.trim());
    run(buildah.command(["rm", container.trim()]).stdout(std::process::Stdio::null()))?;
    // The image that the tag named before this build.
    run(&mut buildah.command(["rmi", "--prune"]))?;
    tried
}

fn require_tools() -> Result<()> {
    let missing: Vec<_> = TOOLS.into_iter().filter(|tool| which(tool).is_none()).collect();
    if !missing.is_empty() {
        bail!(
            "missing: {}\nOn Debian: apt-get install --no-install-recommends buildah debootstrap crun",
            missing.join(", ")
        );
    }
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("making the base images needs root: run `cargo xtask image` as root");
    }
    Ok(())
}

fn try_out(buildah: &Buildah, container: &str) -> Result<()> {
    run(&mut buildah.command(["run", container, "--", "concprobe", "--version"]))?;
    let mut doctor = buildah.command(["run", container, "--", "concprobe", "doctor"]);
    let output = doctor.output().with_context(|| format!("cannot run `{}`", as_typed(&doctor)))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    println!("concprobe doctor in the container: {}", output.status);
    // 2 says that something is not allowed there, which depends on the machine and not on the image.
    if output.stdout.is_empty() || !matches!(output.status.code(), Some(0 | 2)) {
        bail!("concprobe doctor did not come to an end in the container: {}", output.status);
    }
    Ok(())
}

impl Buildah {
    fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut buildah = Command::new("buildah");
        let storage = |name: &str| OsString::from(self.folder.join("storage").join(name));
        buildah.arg("--root").arg(storage("root")).arg("--runroot").arg(storage("run"));
        // Neither needs anything from the kernel that a container around this process may refuse.
        buildah.args(["--storage-driver", "vfs"]).env("BUILDAH_ISOLATION", "chroot");
        buildah.args(arguments);
        buildah
    }

    fn has(&self, image: &str) -> Result<bool> {
        let mut inspect = self.command(["images", "--quiet", "--filter"]);
        Ok(!capture(inspect.arg(format!("reference={image}")))?.trim().is_empty())
    }

    /// Makes an image out of a root file system, with the environment that its `ENV` lines would set.
    fn import(&self, root: &Path, image: &str, environment: &[(&str, &str)]) -> Result<()> {
        let container = capture(&mut self.command(["from", "scratch"]))?;
        let container = container.trim();
        run(self
            .command(["copy", "--quiet", container])
            .arg(root)
            .arg("/")
            .stdout(std::process::Stdio::null()))?;
        for (name, value) in environment {
            let variable = format!("{name}={value}");
            run(&mut self.command(["config", "--env", &variable, container]))?;
        }
        run(&mut self.command(["commit", "--quiet", "--rm", container, image]))
    }
}
