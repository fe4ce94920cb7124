//! Compiles the C++ originals where there is a C++ compiler; without one the workloads that need them say so.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_cpp)");
    println!("cargo::rerun-if-changed=cpp/futures.cc");
    let compiled = cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .cargo_warnings(false)
        .file("cpp/futures.cc")
        .try_compile("futures");
    if compiled.is_ok() {
        println!("cargo::rustc-cfg=has_cpp");
    }
}
