//! A failed assertion ends the process.
//!
//! A thread that unwinds leaves poisoned locks, unanswered requests and unfinished work, while the process looks healthy and is not restarted. So a
//! panic on any thread ends the process at once, with a message. The next start recovers as after a crash.
//!
//! Call this only in the proxy's own process: tools, tests and programs that embed the proxy may unwind.

use std::io::Write as _;

/// From now on a panic on any thread aborts the process (SIGABRT), after its message.
pub fn end_the_process() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        // Do not use the log, because it may be what has failed.
        let _ = std::io::stderr().write_all(
            b"this is a defect of the proxy; it ends here, so that it can be started anew\n",
        );
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    const CHILD: &str = "LOLIGO_TEST_PANICS";

    /// Runs this test again in a child process, in which a thread panics.
    #[test]
    fn a_panic_of_any_thread_ends_the_process_with_a_message() {
        if std::env::var_os(CHILD).is_some() {
            super::end_the_process();
            let _ = std::thread::spawn(|| panic!("seven is not eight")).join();
            return;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "health::panicking::tests::a_panic_of_any_thread_ends_the_process_with_a_message",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        const SIGABRT: i32 = 6;
        assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("seven is not eight"), "{said}");
        assert!(said.contains("started anew"), "{said}");
    }
}
