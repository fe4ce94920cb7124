//! Compiles the C++ originals where there is a C++ compiler that can also link them; without one the workloads
//! that need them say so.

use std::{path::Path, process::Stdio};

const SOURCE: &str = "cpp/futures.cc";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_cpp)");
    println!("cargo::rerun-if-changed={SOURCE}");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).cargo_warnings(false).file(SOURCE);
    if links(&build) && build.try_compile("futures").is_ok() {
        println!("cargo::rustc-cfg=has_cpp");
    }
}

/// A compiler may be there without its library, which would only show when the program is linked.
fn links(build: &cc::Build) -> bool {
    let (Ok(compiler), Some(folder)) = (build.try_get_compiler(), std::env::var_os("OUT_DIR")) else {
        return false;
    };
    compiler
        .to_command()
        .args(["-shared", "-fPIC", "-pthread", "-Wl,-z,defs", SOURCE, "-o"])
        .arg(Path::new(&folder).join("probe.so"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
