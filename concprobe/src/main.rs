//! The program: hands the command line to the library and its answer to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    concprobe::cli::main(concprobe::clock::now_ns())
}
