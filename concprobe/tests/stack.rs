//! Captured stacks of real programs become names. The tests stop a sleeping thread and copy its registers
//! and stack, as the kernel programs do when it goes to sleep.
#![allow(clippy::print_stdout, reason = "tests say what they skip and what they measured")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use concprobe::stack::{Capture, End, Frame, Mappings, Names, Place, Registers, Trace, Unwinder};

/// A program that sleeps, which is ended with the test.
struct Program {
    child: Child,
    pid: i32,
    tid: i32,
    address: u64,
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.pid != self.child.id().cast_signed() {
            // SAFETY: the number is that of a child of the program that still runs.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path of the built program; `None` if there is no compiler for it.
fn build(compiler: &str, source: &str) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let name = source.file_name()?.to_str()?.replace('.', "_");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if program.exists()
        && fs::metadata(&program).ok()?.modified().ok() > fs::metadata(&source).ok()?.modified().ok()
    {
        return Some(program);
    }
    let Ok(output) =
        Command::new(compiler).args(["-O2", "-pthread", "-o"]).args([&program, &source]).output()
    else {
        println!("skipped: there is no {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn c_program() -> PathBuf {
    build("cc", "stack_wait.c").expect("the tests need a C compiler")
}

/// Starts a program and waits until it says who sleeps where and really does.
fn start(command: &mut Command) -> Program {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("0x") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "{command:?} ended");
    }
    let mut fields = line.split_whitespace();
    let mut field = || fields.next().unwrap();
    let (pid, tid) = (field().parse().unwrap(), field().parse().unwrap());
    let address = u64::from_str_radix(field().trim_start_matches("0x"), 16).unwrap();
    let program = Program { child, pid, tid, address };
    let call = format!("{} ", libc::SYS_futex);
    until("the thread sleeps", || {
        fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap().starts_with(&call)
    });
    program
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} has not come true");
        thread::yield_now();
    }
}

/// What the kernel would copy.
struct Copy {
    pid: i32,
    time_ns: u64,
    words: Vec<u64>,
    stack: Vec<u8>,
}

impl Copy {
    fn capture(&self) -> Capture<'_> {
        let registers = Registers::from_kernel(&self.words).unwrap();
        Capture { pid: self.pid, time_ns: self.time_ns, registers, stack: &self.stack }
    }
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Stops the thread, copies its registers and up to 16 KiB of its stack, and lets it go on.
fn copy(program: &Program) -> Copy {
    let Program { pid, tid, .. } = *program;
    let mut words = vec![0_u64; 64];
    let mut registers = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words[..]) };
    // SAFETY: the calls act on a thread of a child; the vector owns as many bytes as it names.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0), 0);
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0), 0);
        assert_eq!(libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL), tid);
        assert_eq!(libc::ptrace(libc::PTRACE_GETREGSET, tid, 1, &raw mut registers), 0);
    }
    let time_ns = now_ns();
    let mut stack = vec![0_u8; 16 << 10];
    let local = libc::iovec { iov_base: stack.as_mut_ptr().cast(), iov_len: stack.len() };
    let sp = Registers::from_kernel(&words).unwrap().sp;
    let remote = [0, 1, 2, 3].map(|index| libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(usize::try_from(sp).unwrap() + index * 4096),
        iov_len: 4096,
    });
    // SAFETY: the local vector owns its bytes; the remote addresses are of another process.
    let copied = unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), 4, 0) };
    stack.truncate(usize::try_from(copied).unwrap());
    // SAFETY: the thread is stopped by this one.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0) }, 0);
    Copy { pid, time_ns, words, stack }
}

/// Mappings that keep what the children of this process map.
fn watching() -> Mappings {
    let mut mappings = Mappings::watch().unwrap();
    mappings.follow(std::process::id().cast_signed());
    mappings
}

fn unwind(mappings: &mut Mappings, copy: &Copy) -> Trace {
    mappings.poll();
    Unwinder::new().unwind(mappings, &copy.capture())
}

fn frames(mappings: &mut Mappings, copy: &Copy, trace: &Trace) -> Vec<Frame> {
    let mut names = Names::new();
    let named = |(index, address): (usize, &u64)| {
        names.frame(mappings, copy.pid, copy.time_ns, *address, index > 0).to_vec()
    };
    trace.addresses.iter().enumerate().flat_map(named).collect()
}

/// The functions in files with that name, innermost first.
fn functions(frames: &[Frame], module: &str) -> Vec<String> {
    let of_module = frames.iter().filter(|frame| frame.module == module);
    of_module.map(|frame| frame.function.clone().unwrap_or_else(|| frame.to_string())).collect()
}

fn data(mappings: &mut Mappings, copy: &Copy, address: u64) -> Place {
    Names::new().data(mappings, copy.pid, copy.time_ns, address)
}

const IN_THREAD: [&str; 4] = ["inner_wait", "middle_wait", "outer_wait", "thread_body"];

/// Unwinds a program of a kind; checks the frames below the C library's.
fn check(kind: &str, call: Option<&str>, expected: &[&str]) -> (Mappings, Copy, u64) {
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg(kind));
    let copy = copy(&program);
    let trace = unwind(&mut mappings, &copy);
    let frames = frames(&mut mappings, &copy, &trace);
    let text: Vec<String> = frames.iter().map(ToString::to_string).collect();
    assert_eq!(trace.end, End::Complete, "{text:#?}");
    assert_eq!(functions(&frames, "stack_wait_c"), expected, "{text:#?}");
    let inner = frames.iter().position(|frame| frame.function.as_deref() == Some("inner_wait")).unwrap();
    if let Some(call) = call {
        assert_eq!(frames[inner - 1].function.as_deref(), Some(call), "{text:#?}");
    }
    (mappings, copy, program.address)
}

#[test]
fn a_thread_that_waits_for_a_mutex_is_named_from_the_lock_to_its_start() {
    let (mut mappings, copy, address) = check("mutex", Some("pthread_mutex_lock"), &IN_THREAD);
    let place = data(&mut mappings, &copy, address);
    let Place::Global { symbol, offset: 0, module, .. } = &place else { panic!("{place:?}") };
    assert_eq!((symbol.as_str(), module.as_str()), ("queue_lock", "stack_wait_c"));
    assert!(place.to_string().starts_with("queue_lock (stack_wait_c+0x"), "{place}");
    let inside = data(&mut mappings, &copy, address + 8).to_string();
    assert!(inside.starts_with("queue_lock+0x8 (stack_wait_c+0x"), "{inside}");
    assert_eq!(mappings.dropped(), concprobe::stack::Dropped::default());
}

#[test]
fn a_semaphore_and_a_condition_variable_are_named() {
    // The C library leaves sem_wait by a jump: it is not on the stack.
    let (mut mappings, copy, address) = check("semaphore", None, &IN_THREAD);
    let place = data(&mut mappings, &copy, address).to_string();
    assert!(place.starts_with("queue_items (stack_wait_c+0x"), "{place}");
    let (mut mappings, copy, address) = check("condition", Some("pthread_cond_wait"), &IN_THREAD);
    let place = data(&mut mappings, &copy, address).to_string();
    assert!(place.starts_with("queue_filled (stack_wait_c+0x"), "{place}");
}

#[test]
fn the_first_thread_is_unwound_to_where_the_program_starts() {
    let expected = ["inner_wait", "middle_wait", "outer_wait", "main", "_start"];
    check("main", Some("pthread_mutex_lock"), &expected);
}

#[test]
fn a_child_without_a_program_of_its_own_has_what_its_parent_had() {
    let expected = ["inner_wait", "middle_wait", "outer_wait", "main", "_start"];
    let (mut mappings, copy, address) = check("fork", Some("pthread_mutex_lock"), &expected);
    let place = data(&mut mappings, &copy, address).to_string();
    assert!(place.starts_with("queue_lock (stack_wait_c+0x"), "{place}");
}

#[test]
fn a_lock_on_the_heap_is_told_by_its_distance() {
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg("heap"));
    let copy = copy(&program);
    mappings.poll();
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.pid)).unwrap();
    let heap = maps.lines().find(|line| line.ends_with("[heap]")).unwrap();
    let start = u64::from_str_radix(heap.split('-').next().unwrap(), 16).unwrap();
    let place = data(&mut mappings, &copy, program.address);
    assert_eq!(place, Place::Mapped { name: "[heap]".to_owned(), offset: program.address - start });
    let stack = data(&mut mappings, &copy, copy.capture().registers.sp).to_string();
    assert!(stack.starts_with("[anon]+0x"), "a thread's stack: {stack}");
    assert_eq!(data(&mut mappings, &copy, 64), Place::Unknown { address: 64 });
}

#[test]
fn a_lock_among_variables_that_start_as_zero_is_named() {
    let (mut mappings, copy, address) = check("zeroed", Some("pthread_mutex_lock"), &IN_THREAD);
    let place = data(&mut mappings, &copy, address).to_string();
    let offset = 15_000 * size_of::<libc::pthread_mutex_t>();
    assert!(place.starts_with(&format!("shards+{offset:#x} (stack_wait_c+0x")), "{place}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_made_at_run_time_is_unwound_by_frame_pointers_and_named_by_its_map() {
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg("made"));
    let copy = copy(&program);
    let trace = unwind(&mut mappings, &copy);
    let frames = frames(&mut mappings, &copy, &trace);
    fs::remove_file(format!("/tmp/perf-{}.map", program.pid)).unwrap();
    assert_eq!(trace.end, End::Complete, "{frames:#?}");
    let expected = ["inner_wait", "middle_wait", "outer_wait", "made_function", "call_made", "thread_body"];
    let functions: Vec<_> = frames.iter().filter_map(|frame| frame.function.as_deref()).collect();
    assert!(functions.windows(6).any(|window| window == expected), "{functions:#?}");
}

#[test]
fn a_shared_lock_is_told_by_file_and_place_in_it() {
    use std::os::unix::fs::MetadataExt as _;
    let path = format!("/dev/shm/concprobe-stack-test-{}", std::process::id());
    let mut mappings = watching();
    let program = start(Command::new(c_program()).args(["shared", &path]));
    let copy = copy(&program);
    mappings.poll();
    let place = data(&mut mappings, &copy, program.address);
    let metadata = fs::metadata(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let (device, inode) = (metadata.dev(), metadata.ino());
    assert_eq!(place, Place::Shared { path: path.clone().into(), device, inode, file_offset: 4096 + 128 });
    assert_eq!(place.to_string(), format!("{path}+0x1080"));
}

#[test]
fn a_program_that_has_ended_is_still_named() {
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg("mutex"));
    let (copy, address) = (copy(&program), program.address);
    drop(program);
    let trace = unwind(&mut mappings, &copy);
    assert_eq!(trace.end, End::Complete);
    assert_eq!(functions(&frames(&mut mappings, &copy, &trace), "stack_wait_c"), IN_THREAD);
    assert!(data(&mut mappings, &copy, address).to_string().starts_with("queue_lock ("));
    mappings.release(now_ns());
    assert_eq!(unwind(&mut mappings, &copy).addresses.len(), 1, "what was released is gone");
}

#[test]
fn a_process_that_runs_another_program_is_named_by_the_one_of_that_time() {
    let mut mappings = watching();
    let script = r#"exec "$0" mutex"#;
    let program = start(Command::new("/bin/sh").args(["-c", script]).arg(c_program()));
    assert_eq!(program.pid, program.child.id().cast_signed());
    let copy = copy(&program);
    let trace = unwind(&mut mappings, &copy);
    assert_eq!(functions(&frames(&mut mappings, &copy, &trace), "stack_wait_c"), IN_THREAD);
}

#[test]
fn a_deleted_program_is_named_while_it_runs_and_gives_a_reason_afterwards() {
    let program_path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stack_deleted");
    for ended in [false, true] {
        fs::copy(c_program(), &program_path).unwrap();
        let mut mappings = watching();
        let program = start(Command::new(&program_path).arg("mutex"));
        let copy = copy(&program);
        fs::remove_file(&program_path).unwrap();
        let running = Some(program).filter(|_| !ended);
        let trace = unwind(&mut mappings, &copy);
        if running.is_some() {
            assert_eq!(trace.end, End::Complete);
            assert_eq!(functions(&frames(&mut mappings, &copy, &trace), "stack_deleted"), IN_THREAD);
        } else {
            let End::NoUnwindInfo { mapping, reason } = &trace.end else { panic!("{trace:?}") };
            assert_eq!(mapping, "stack_deleted");
            assert!(reason.starts_with("it was deleted"), "{reason}");
            let frames = frames(&mut mappings, &copy, &trace);
            assert!(frames.last().unwrap().to_string().starts_with("stack_deleted+0x"), "{frames:?}");
        }
    }
}

#[test]
fn without_the_kernels_reports_a_running_process_is_read() {
    let program = start(Command::new(c_program()).arg("mutex"));
    let copy = copy(&program);
    for adopted in [false, true] {
        let mut mappings = Mappings::from_proc_only();
        if adopted {
            mappings.adopt(program.pid).unwrap();
        }
        let trace = unwind(&mut mappings, &copy);
        assert_eq!(trace.end, End::Complete);
        assert_eq!(functions(&frames(&mut mappings, &copy, &trace), "stack_wait_c"), IN_THREAD);
        assert!(data(&mut mappings, &copy, program.address).to_string().starts_with("queue_lock ("));
    }
    assert!(Mappings::from_proc_only().adopt(i32::MAX).is_err());
}

#[test]
fn a_running_process_is_adopted_and_what_it_maps_later_is_seen() {
    let mut mappings = Mappings::watch().unwrap();
    let own = std::process::id().cast_signed();
    mappings.follow(own);
    mappings.adopt(own).unwrap();
    mappings.adopt(own).unwrap();
    let file = fs::File::open(c_program()).unwrap();
    // SAFETY: the file is not changed while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    mappings.poll();
    let found = mappings.find(own, now_ns(), map.as_ptr().addr() as u64).unwrap();
    assert_eq!(found.origin.path, c_program());
    let code = now_ns as fn() -> u64 as usize as u64;
    assert!(mappings.find(own, now_ns(), code).unwrap().protection.executable());
}

#[test]
fn a_stack_that_was_copied_in_part_is_unwound_in_part() {
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg("deep"));
    let mut copy = copy(&program);
    assert_eq!(copy.stack.len(), 16 << 10);
    let trace = unwind(&mut mappings, &copy);
    assert_eq!(trace.end, End::Truncated);
    let all = functions(&frames(&mut mappings, &copy, &trace), "stack_wait_c");
    assert_eq!(all[..3], IN_THREAD[..3]);
    assert!(all.len() > 50 && all[3..].iter().all(|name| name == "deep_wait"), "{all:?}");
    for length in (0..4096).step_by(8) {
        copy.stack.truncate(4096 - length);
        let part = unwind(&mut mappings, &copy);
        assert_eq!(part.end, End::Truncated, "{length}");
        assert_eq!(part.addresses, trace.addresses[..part.addresses.len()]);
    }
}

#[test]
fn garbage_does_no_harm() {
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg("mutex"));
    let mut copy = copy(&program);
    mappings.poll();
    let trace = unwind(&mut mappings, &copy);
    let good = copy.words.clone();
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let (mut unwinder, mut names) = (Unwinder::new(), Names::new());
    for round in 0..20_000_u64 {
        for word in &mut copy.words {
            // Every other word is left or lies close to an address that is mapped.
            *word = match random() % 4 {
                0 => random() << 16 | random(),
                1 => trace.addresses[(random() as usize) % trace.addresses.len()].wrapping_add(random() % 64),
                2 => good[19].wrapping_add(random() % 32_768),
                _ => u64::MAX - random() % 9,
            };
        }
        for bytes in copy.stack.chunks_exact_mut(8) {
            let address = trace.addresses[(random() as usize) % trace.addresses.len()];
            let word = if round % 2 == 0 { address.wrapping_add(random() % 4096) } else { random() };
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let trace = unwinder.unwind(&mut mappings, &copy.capture());
        assert!(!trace.end.to_string().contains("evaluated"), "a library panicked");
        for address in trace.addresses.iter().take(3) {
            names.frame(&mut mappings, copy.pid, copy.time_ns, *address, true);
            names.data(&mut mappings, copy.pid, copy.time_ns, *address);
        }
    }
}

#[test]
fn damaged_programs_do_no_harm() {
    let good = fs::read(c_program()).unwrap();
    let own = std::process::id().cast_signed();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stack_damaged");
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    for round in 0..400 {
        let mut bytes = good.clone();
        let headers = [0..64, 64..800, good.len() - 2048..good.len(), 0..good.len()][round % 4].clone();
        for _ in 0..1 + random() % 20 {
            let at = headers.start + random() % headers.len();
            bytes[at] = random().to_le_bytes()[0];
        }
        fs::write(&path, &bytes).unwrap();
        let file = fs::File::open(&path).unwrap();
        // SAFETY: the file is replaced, never changed, after the mapping is gone.
        let map = unsafe { memmap2::MmapOptions::new().map_exec(&file) }.unwrap();
        let mut mappings = Mappings::from_proc_only();
        let (mut unwinder, mut names) = (Unwinder::new(), Names::new());
        for offset in (0..map.len()).step_by(97) {
            let ip = map.as_ptr().addr() as u64 + offset as u64;
            let stack: Vec<u8> = (0..64).flat_map(|_| (ip + 4).to_le_bytes()).collect();
            let registers = Registers { ip, sp: 4096, frame: 4200, link: 0 };
            let capture = Capture { pid: own, time_ns: now_ns(), registers, stack: &stack };
            unwinder.unwind(&mut mappings, &capture);
            names.frame(&mut mappings, own, now_ns(), ip, false);
            names.data(&mut mappings, own, now_ns(), ip);
        }
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn names_of_cpp_are_readable() {
    let Some(path) = build("c++", "stack_wait.cpp") else { return };
    let mut mappings = watching();
    let program = start(&mut Command::new(path));
    let copy = copy(&program);
    let trace = unwind(&mut mappings, &copy);
    let frames = frames(&mut mappings, &copy, &trace);
    assert_eq!(trace.end, End::Complete, "{frames:#?}");
    let functions = functions(&frames, "stack_wait_cpp");
    assert_eq!(functions[..2], ["store::Shelf::take(int)", "void store::fetch<long>(store::Shelf&, long)"]);
    let place = data(&mut mappings, &copy, program.address).to_string();
    assert!(place.starts_with("store::gate (stack_wait_cpp+0x"), "{place}");
}

static GATE: Mutex<u32> = Mutex::new(0);

#[inline(never)]
fn rust_outer() {
    rust_inlined();
    std::hint::black_box(1);
}

#[inline(always)]
fn rust_inlined() {
    *GATE.lock().unwrap() += 1;
    std::hint::black_box(2);
}

#[test]
fn names_and_lines_of_rust_are_those_of_the_source() {
    if std::env::var_os("CONCPROBE_STACK_SLEEP").is_some() {
        let guard = GATE.lock().unwrap();
        // SAFETY: the call has no arguments and no effect.
        let tid = unsafe { libc::gettid() };
        println!("{} {tid} {:p}", std::process::id(), &raw const GATE);
        rust_outer();
        drop(guard);
    }
    let mut mappings = watching();
    let own = std::env::current_exe().unwrap();
    let arguments = ["--exact", "--nocapture", "names_and_lines_of_rust_are_those_of_the_source"];
    let program = start(Command::new(&own).args(arguments).env("CONCPROBE_STACK_SLEEP", "1"));
    let copy = copy(&program);
    let trace = unwind(&mut mappings, &copy);
    let frames = frames(&mut mappings, &copy, &trace);
    let at = frames.iter().position(|frame| frame.function.as_deref() == Some("stack::rust_outer"));
    let at = at.unwrap_or_else(|| panic!("{frames:#?}"));
    // Line tables alone, as in a release build, name an inlined function without its module.
    let inlined = frames[at - 1].function.as_deref();
    assert!(matches!(inlined, Some("stack::rust_inlined" | "rust_inlined")), "{frames:#?}");
    for (frame, call) in [(&frames[at - 1], "GATE.lock()"), (&frames[at], "rust_inlined();")] {
        let (file, line) = frame.source.as_ref().unwrap().rsplit_once(':').unwrap();
        assert!(file.ends_with("tests/stack.rs"), "{file}");
        let source = include_str!("stack.rs").lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        assert!(source.contains(call), "{source}");
    }
    assert_eq!(trace.end, End::Complete);
    let place = data(&mut mappings, &copy, program.address).to_string();
    assert!(place.starts_with("stack::GATE (stack-"), "{place}");
}

/// Not a test of a limit: prints what naming costs.
#[test]
#[ignore = "measures; run with --release --ignored --nocapture"]
fn what_a_trace_costs() {
    let (sender, receiver) = mpsc::channel();
    let mut mappings = watching();
    let program = start(Command::new(c_program()).arg("mutex"));
    let copy = copy(&program);
    mappings.poll();
    let (mut unwinder, mut names) = (Unwinder::new(), Names::new());
    for round in 0..20_000 {
        let begin = Instant::now();
        let trace = unwinder.unwind(&mut mappings, &copy.capture());
        let unwound = Instant::now();
        for (index, address) in trace.addresses.iter().enumerate() {
            names.frame(&mut mappings, copy.pid, copy.time_ns, *address, index > 0);
        }
        let named = Instant::now();
        sender.send((unwound - begin, named - unwound)).unwrap();
        if round == 0 {
            println!("first: unwound in {:?}, named in {:?}", unwound - begin, named - unwound);
        }
    }
    let mut times: Vec<_> = receiver.try_iter().collect();
    times.sort();
    println!("then: {:?} (median of unwinding, with its naming)", times[times.len() / 2]);
}
