//! The kernel side: one object with every program, in two flavours (BTF and classic tracepoints) that
//! feed the same functions. The user side loads one flavour and attaches what the depth asks for.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// For the one instruction that the language does not offer on this target: an atomic addition.
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

mod maps;
mod probes;
mod record;
mod site;
mod stack;
mod thread;

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[cfg(target_arch = "bpf")]
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

// Lets `cargo clippy --workspace` on the host cover the probes' sources.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
