#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests `pmctl vm`: /source/pmctl with the machine in PERFMON_VM. Called by test-vm."""

import hashlib
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import fcntl
import time

PMCTL = "/source/pmctl"
PAGE = "/debian/vm.rst"
NOBODY = 65534
# Seconds after which a machine counts as hanging, and its test fails. A busy host may take ten times as
# long as an idle one, which boots and runs a test in half a minute at most.
TIMEOUT = 600

TESTS = []
# Slow tests, which run only if the command line names them.
LONG_TESTS = []
# Processes that tests have started, and that a failed test may have left behind.
STARTED_PROCESSES = []


def test(function):
    TESTS.append(function)
    return function


def long_test(function):
    LONG_TESTS.append(function)
    return function


class Failed(Exception):
    """Ends a test that has failed, with the reason."""


def expect(got, wanted, what):
    if got != wanted:
        raise Failed(f"{what}: expected {wanted!r}, got {got!r}")


def command(*words):
    return [PMCTL, "vm", *words]


def run(*words, stdin=b"", cwd=None, env=None, groups=()):
    """Runs `pmctl vm WORDS` as user 65534, also of `groups`; returns exit code, standard output, standard error."""
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": groups} if os.getuid() == 0 else {}
    done = subprocess.run(
        command(*words),
        input=stdin,
        capture_output=True,
        cwd=cwd or FOLDER,
        timeout=TIMEOUT,
        env=env,
        check=False,
        **user,
    )
    # If a start takes long on a busy host, pmctl says so.
    errors = re.sub(r"pmctl: the virtual machine has not started the command after .*\n", "", done.stderr.decode(errors="replace"))
    return done.returncode, done.stdout, errors


def shell(script, *options, **settings):
    return run(*options, "--run", "--", "sh", "-c", script, **settings)


def parse_counts(text, separator=","):
    """Returns {event: count} of the output of `stat -x,`."""
    rows = (line.split(separator) for line in text.splitlines())
    return {row[2]: int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit()}


def make_writable(name):
    """Makes a directory that the user of run() may write to; returns its path."""
    path = os.path.join(FOLDER, name)
    os.mkdir(path)
    os.chown(path, NOBODY, NOBODY)
    return path


def reset_signals():
    """Stops ignoring signals, as nohup(1) and a shell's & make it: pmctl passes no ignored signal on."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def start(*words, stdout=subprocess.PIPE):
    """Starts `pmctl vm WORDS` whose command prints "ready" first, and waits for that."""
    process = subprocess.Popen(
        command(*words), stdin=subprocess.DEVNULL, stdout=stdout, cwd=FOLDER, preexec_fn=reset_signals
    )
    STARTED_PROCESSES.append(process)
    expect(process.stdout.readline(), b"ready\n", "the first line of the output")
    return process


@test
def streams_and_exit_code():
    code, out, err = shell("echo out; echo err >&2; exit 7")
    expect((code, out, err), (7, b"out\n", "err\n"), "exit code and streams")
    code, out, err = shell("cat /dev/stdin >/dev/stdout; echo err >/dev/stderr", stdin=b"in")
    expect((code, out, err), (0, b"in", "err\n"), "streams that are opened by name")
    done = subprocess.run(["sh", "-c", f"{PMCTL} vm --run -- python3 -c 'print(1)' >/dev/full"], capture_output=True, check=False)
    expect((done.returncode, b"can't write the output" in done.stderr), (125, True), done.stderr)


@test
def commands_that_cannot_run():
    code, _, err = run("--run", "--", "no-such-program")
    expect(code, 127, "exit code without such a program")
    expect("can't run `no-such-program`" in err, True, err)
    expect(run("--run", "--", "/etc/passwd")[0], 126, "exit code of a file that can't be executed")
    expect(shell("kill -9 $$")[0], 137, "exit code of a killed shell")
    code, _, err = run("--", "stat", "-e", "no-such-event", "--", "true")
    expect((code, "no event is called" in err), (2, True), err)
    code, _, err = run("--", "gzip", "-c", "x")
    expect((code, "`pmctl vm -- stat -- gzip -c x`" in err), (2, True), err)
    code, _, err = run("--", "report")
    expect((code, "run it without `vm`" in err), (2, True), err)
    code, out, err = run("--run", "--", "pmctl", "--version", cwd="/usr")
    expect((code, out[:6]), (0, b"pmctl "), err)
    code, _, err = run("--run", "--", "true", cwd="/dev/shm")
    expect(code, 0, err)
    closed = os.path.join(FOLDER, "closed")
    os.makedirs(os.path.join(closed, "inside"))
    os.chmod(closed, 0o711)
    code, _, err = run("--run", "--", "true", cwd=os.path.join(closed, "inside"))
    expect((code, "may not read one of the directories above it" in err), (125, True), err)
    code, _, err = run("--run", "--", "true", *(["x" * 1000] * 500))
    expect(code, 0, err)
    code, _, err = run("--", "stat", "--no-such-option", "--", "true")
    expect((code, "there is no option `--no-such-option`" in err), (2, True), err)


@test
def input_arrives_whole():
    data = os.urandom(5_000_000)
    code, out, _ = shell("md5sum; cat", stdin=data)
    expect(code, 0, "exit code")
    expect(out.split()[0].decode(), hashlib.md5(data).hexdigest(), "hash of the input that arrived")
    # A command that reads only a part of the input gets that part.
    code, out, _ = shell("head -c 3", stdin=data)
    expect((code, out), (0, data[:3]), "exit code and the first bytes of the input")


@test
def closed_input_keeps_the_machine_idle():
    # The guest waits for input without polling, so its CPU stays idle.
    idle = "awk '{ print $2 }' /proc/uptime"
    code, out, err = shell(f"exec <&-; {idle}; sleep 3; {idle}")
    first, second = (float(word) for word in out.split())
    expect((code, second - first > 2), (0, True), f"idle for {second - first} s: {err}")


@test
def output_arrives_whole():
    code, out, _ = shell("seq 5000000")
    expect(code, 0, "exit code")
    wanted = b"".join(b"%d\n" % number for number in range(1, 5000001))
    expect(hashlib.md5(out).hexdigest(), hashlib.md5(wanted).hexdigest(), "hash of the output that arrived")


@long_test
def two_gigabytes_arrive_whole():
    part = os.urandom(64 << 20)
    path = os.path.join(FOLDER, "part")
    with open(path, "wb") as file:
        file.write(part)
    wanted, got = hashlib.md5(), hashlib.md5()
    for _ in range(32):
        wanted.update(part)
    process = subprocess.Popen(command("--run", "--", "cat", *[path] * 32), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    while data := process.stdout.read(1 << 20):
        got.update(data)
    expect((process.wait(), got.hexdigest()), (0, wanted.hexdigest()), "exit code and output")


@test
def a_closed_reader_ends_the_command():
    script = f"{PMCTL} vm --run -- yes | head -n 2"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=TIMEOUT, cwd=FOLDER, check=False)
    expect(done.stdout, b"y\ny\n", "what head prints")


@test
def background_processes_end_with_the_command():
    # The sleep is longer than run() waits.
    code, out, _ = shell(f"sleep {10 * TIMEOUT} & echo done")
    expect((code, out), (0, b"done\n"), "exit code and output")


@test
def user_and_groups_are_those_of_the_caller():
    script = "id -u; id -G; pwd; umask; hostname; cat /etc/shadow; echo $?"
    os.umask(0o027)
    code, out, _ = shell(script, cwd="/usr/share", groups=[1234, 56])
    os.umask(0o022)
    wanted = ["65534", "65534 56 1234", "/usr/share", "0027", os.uname().nodename, "1"]
    expect((code, out.decode().split("\n")[:6]), (0, wanted), "what the command sees")


@test
def words_and_variables_are_the_same():
    folder = os.path.join(FOLDER, "a \udcff'\n b").encode("utf-8", "surrogateescape")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o755)
    words = ["", " ", "'\"$x\\", "\udcfe", "ä"]
    done = subprocess.run(
        command("--env", "ODD=a\n b", "--env", "PASSED", "--run", "--", "sh", "-c", 'pwd; printf "%s|" "$@" "$ODD" "$PASSED" "$HIDDEN"', "sh", *words),
        cwd=folder,
        capture_output=True,
        env={**os.environ, "PASSED": "yes", "HIDDEN": "no"},
        timeout=TIMEOUT,
        check=False,
    )
    wanted = folder + b"\n" + b"".join(os.fsencode(word) + b"|" for word in [*words, "a\n b", "yes", ""])
    expect((done.returncode, done.stdout), (0, wanted), done.stderr)


@long_test
def the_environment_is_fixed():
    common = {name: os.environ[name] for name in ("PATH", "PERFMON_VM")}
    first = run("--run", "--", "env", env={**common, "X": "1"})
    expect((first[0], b"LANG" in first[1], b"X=" in first[1]), (0, True, False), first)
    expect(run("--run", "--", "env", env={"Y": "22", **common})[1], first[1], "output with another environment")
    code, out, _ = run("--env-all", "--run", "--", "env", env={**common, "X": "1"})
    expect((code, b"X=1\n" in out, b"LANG" in out), (0, True, False), "exit code and variables with --env-all")


@test
def options_choose_the_machine():
    script = "grep -m 1 vendor /proc/cpuinfo; nproc; date -u +%Y; cat /proc/sys/kernel/randomize_va_space"
    cases = [([], "GenuineIntel", "1", "0"), (["--cpu", "amd", "--cpus", "2", "--aslr"], "AuthenticAMD", "2", "2")]
    for options, vendor, cpus, random in cases:
        code, out, err = shell(script, *options)
        expect((code, out.decode().split()[2:]), (0, [vendor, cpus, "2037", random]), err)
    code, _, err = shell("kill -ILL $$")
    expect((code, "AVX2, and not AVX-512" in err), (132, True), err)


@test
def the_files_stay_as_they_are():
    folder = make_writable("files")
    for name in ("kept", "renamed", "removed"):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write("before")
        os.chown(os.path.join(folder, name), NOBODY, NOBODY)
    os.makedirs(os.path.join(folder, "tree/below"))
    for name in ("tree", "tree/below"):
        os.chown(os.path.join(folder, name), NOBODY, NOBODY)
    script = "echo after >kept; mv renamed new; rm removed; mv tree tree2; rm -r tree2; echo x >made; chmod 751 made; ls"
    code, out, err = shell(script, "--out", "made", cwd=folder)
    expect((code, out.split()), (0, [b"kept", b"made", b"new"]), err)
    expect(sorted(os.listdir(folder)), ["kept", "made", "removed", "renamed", "tree"], "names of the host's files")
    with open(os.path.join(folder, "kept"), encoding="ascii") as file:
        expect(file.read(), "before", "text of the host's file")
    status = os.stat(os.path.join(folder, "made"))
    expect((status.st_mode & 0o777, status.st_size), (0o751, 2), "mode and size of the written file")
    for name in ("none", "kept"):
        code, _, err = shell("true", "--out", name, cwd=folder)
        expect((code, f"can't copy {name}" in err), (125, True), err)
    # If a file can't be written here, the others are still copied.
    code, _, err = shell("mkdir b; echo 1 >b/x; echo 2 >made; exit 4", "--out", "b/x", "--out", "made", cwd=folder)
    expect((code, "can't write b/x" in err), (4, True), err)
    with open(os.path.join(folder, "made"), encoding="ascii") as file:
        expect(file.read(), "2\n", "text of the second file")
    rename = "import os; os.rename('tree', 'tree3'); print(os.listdir('tree3'))"
    expect(run("--run", "--", "python3", "-c", rename, cwd=folder)[:2], (0, b"['below']\n"), "exit code and names in a renamed directory")


@long_test
def a_directory_that_is_named_is_written():
    folder = os.path.join(FOLDER, "written, with a comma")
    for name in ("", "open", "open/closed"):
        os.mkdir(os.path.join(folder, name))
    for name in ("", "open"):
        os.chown(os.path.join(folder, name), NOBODY, NOBODY)
    with open(os.path.join(folder, "open/kept"), "w", encoding="ascii") as file:
        file.write("before")
    script = (
        "set -e; cd open; cat kept; mkdir -m 750 d; echo 1 >d/x; mv d e; ln -s e link; rm kept; echo outside >../o; cat ../o;"
        "! touch closed/x 2>/dev/null; head -c 300000000 /dev/zero >big;"
    )
    # Writes two directories, one after the other: the snapshot of the machine was made with the
    # first directory.
    for name in ("other", "open"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        code, out, err = shell(script if name == "open" else "true", "--write", name, "--memory", "256", cwd=folder)
        expect(code, 0, err)
    expect(out, b"beforeoutside\n", "text of the files that the command saw")
    expect(sorted(os.listdir(folder)), ["open", "other"], "names of the files outside")
    inside = os.path.join(folder, "open")
    expect(sorted(os.listdir(inside)), ["big", "closed", "e", "link"], "names of the files inside")
    status = os.stat(os.path.join(inside, "e"))
    expect((status.st_mode & 0o777, status.st_uid, os.listdir(os.path.join(inside, "e"))), (0o750, NOBODY, ["x"]), "mode, owner and names of a directory")
    expect(os.path.getsize(os.path.join(inside, "big")), 300_000_000, "size of a file that is larger than the memory")
    # The host sees writes to a file that is still open, and the command sees what the host appends.
    script = "exec 3>>shared; echo guest >&3; echo ready; while [ $(wc -l <shared) = 1 ]; do sleep 0.1; done; echo guest >&3"
    process = start("--write", inside, "--run", "--", "sh", "-c", f"cd '{inside}'; {script}")
    with open(os.path.join(inside, "shared"), "a+", encoding="ascii") as file:
        file.seek(0)
        expect(file.read(), "guest\n", "text that the guest wrote")
        file.write("host\n")
    process.communicate(timeout=TIMEOUT)
    with open(os.path.join(inside, "shared"), encoding="ascii") as file:
        expect((process.returncode, file.read()), (0, "guest\nhost\nguest\n"), "exit code and text that host and guest appended")
    # A write that the host refuses fails in the guest's command, too.
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))

    done = subprocess.run(
        command("--no-snapshot", "--write", inside, "--run", "--", "dd", "if=/dev/zero", "of=limited", "bs=64k", "count=20"),
        cwd=inside, capture_output=True, text=True, timeout=TIMEOUT, check=False, preexec_fn=limit,
    )
    expect((done.returncode, "File too large" in done.stderr), (1, True), done.stderr)
    # Files have times of the host's clock, so make(1) takes results for newer than their sources.
    makefile = "/tmp/made: source\n\tcp source /tmp/made\n"
    with open(os.path.join(inside, "Makefile"), "w", encoding="ascii") as file:
        file.write(makefile)
    script = "echo 1 >source; make -s; sleep 1; echo 2 >source; make -s; cat /tmp/made; make -q"
    expect(shell(script, "--write", ".", cwd=inside)[:2], (0, b"2\n"), "exit code and output of make")
    # A result in the written directory is there already, and is not copied onto itself.
    for _ in range(2):
        code, _, err = run("--write", inside, "--out", "perf.data", "--", "record", "-e", "instructions:u", "--", "true", cwd=inside)
        expect((code, "can't" in err), (0, False), err)
    recordings = sorted(name for name in os.listdir(inside) if name.startswith("perf"))
    expect(recordings, ["perf.data", "perf.data.old"], "names of the recordings")
    # A result behind a symbolic link is copied out; a result that was not written is an error.
    os.symlink(os.path.join(folder, "outside"), os.path.join(inside, "way"))
    for name, codes in (("way", 0), ("never", 125)):
        code, _, err = shell("echo x >way", "--write", ".", "--out", name, cwd=inside)
        expect(code, codes, err)
    # If only the host has written the file just before, that is an error, too, in any part of a
    # second.
    for _ in range(3):
        with open(os.path.join(folder, "outside"), "w", encoding="ascii") as file:
            file.write("before")
        code, _, err = shell("true", "--write", ".", "--out", "way", "--out", "../outside", cwd=inside)
        expect((code, err.count("did not write it")), (125, 2), err)
    for name, reason in (("none", "can't find none"), ("/", "would share all files"), ("open/big", "is not a directory")):
        code, _, err = shell("true", "--write", name, cwd=folder)
        expect((code, reason in err), (2, True), err)


# Opens a file and replaces it, opens 700 others (too many for a limit of 1024), and writes to the first.
MANY_FILES = """
import os
with open("name", "w") as file: file.write("first\\n")
first = os.open("name", os.O_RDWR)
with open("new", "w") as file: file.write("second\\n")
os.rename("new", "name")
others = [os.open(f"other{number}", os.O_RDWR | os.O_CREAT) for number in range(700)]
os.pwrite(first, b"FIRST", 0)
print(os.pread(first, 6, 0), open("name").read())
"""


@long_test
def an_open_file_stays_the_same_among_many():
    folder = make_writable("many")
    words = [*command("--write", ".", "--run", "--"), "python3", "-c", MANY_FILES]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -S -n 1024; exec "$@"', "sh", *words],
        cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )
    expect((done.returncode, done.stdout), (0, "b'FIRST\\n' second\n\n"), done.stderr)


@test
def signals_reach_the_command():
    # 2>/dev/null: the shell prints a message when SIGQUIT ends the sleep.
    script = "trap 'echo got; exit 9' TERM INT HUP QUIT; echo ready; while :; do sleep 0.1; done 2>/dev/null"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        process = start("--run", "--", "sh", "-c", script)
        process.send_signal(number)
        out, _ = process.communicate(timeout=TIMEOUT)
        expect((process.returncode, out), (9, b"got\n"), f"exit code and output after {number.name}")


@test
def a_second_signal_ends_the_machine():
    process = start("--run", "--", "sh", "-c", "trap 'echo got' TERM; echo ready; while :; do sleep 0.1; done 2>/dev/null")
    process.send_signal(signal.SIGTERM)
    expect(process.stdout.readline(), b"got\n", "output after the first signal")
    # Within a second, the same signal counts as one.
    time.sleep(1.1)
    process.send_signal(signal.SIGTERM)
    expect(process.wait(timeout=TIMEOUT), -signal.SIGTERM, "exit code after the second signal")


@test
def no_machine_is_left_behind():
    process = start("--run", "--", "sh", "-c", "echo ready; sleep 1000")
    qemu = children(process.pid)
    expect(len(qemu), 1, "number of QEMU's processes")
    process.kill()
    process.wait(timeout=TIMEOUT)
    until = time.monotonic() + TIMEOUT
    while os.path.exists(f"/proc/{qemu[0]}/exe") and time.monotonic() < until:
        time.sleep(0.1)
    expect(os.path.exists(f"/proc/{qemu[0]}/exe"), False, "QEMU still exists")


def children(pid):
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(name) == pid]


def parent(name):
    try:
        with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


@test
def the_command_has_the_terminal():
    pid, terminal, before = on_terminal("--env", "PS1=ready# ", "--run", "--", "sh")
    read_until(terminal, "ready# ")
    os.write(terminal, b"stty size; tty; echo $TERM\n")
    read_until(terminal, "33 101\r\n/dev/pts/0\r\nxterm")
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    # The terminal echoes what is typed, so the typed text must not have the word that is printed.
    os.write(terminal, b"until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo re''sized\n")
    read_until(terminal, "resized")
    os.write(terminal, b"sh -c \"echo be''gun; exec sleep 1000\"; echo $?\n")
    read_until(terminal, "begun")
    os.write(terminal, b"\x03")
    # SIGINT ends the line, and not the shell.
    read_until(terminal, "# ")
    expect(termios.tcgetattr(terminal) == before, False, "the terminal's settings are the earlier ones")
    os.write(terminal, b"exit 5\n")
    expect(exit_code(pid, terminal), 5, "exit code")
    expect(termios.tcgetattr(terminal), before, "the terminal's settings afterwards")


@test
def a_program_has_the_whole_screen():
    folder = os.path.join(FOLDER, "screen")
    os.mkdir(folder)
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write("".join(f"line {number}\n" for number in range(1, 101)))
    pid, terminal, before = on_terminal("--out", text, "--run", "--", "busybox", "vi", text)
    # The screen has 33 rows; vi shows the cursor's line number in the last one.
    read_until(terminal, "line 32")
    os.write(terminal, b"dd\x06")
    read_until(terminal, "32/99 32%")
    os.write(terminal, b"Gx")
    read_until(terminal, "99/99 100%")
    os.write(terminal, b"ZZ")
    expect(exit_code(pid, terminal), 0, "exit code")
    expect(termios.tcgetattr(terminal), before, "the terminal's settings afterwards")
    with open(text, encoding="ascii") as file:
        lines = file.read().splitlines()
    expect((len(lines), lines[0], lines[-1]), (99, "line 2", "ine 100"), "number of saved lines, the first and the last")


def on_terminal(*words):
    """Starts `pmctl vm WORDS` on a terminal; returns its process, the terminal, and the terminal's settings."""
    gate, opener = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        # Waits until the parent has set the size, and has read the settings, which pmctl changes.
        os.close(opener)
        os.read(gate, 1)
        os.execve(PMCTL, command(*words), {**os.environ, "TERM": "xterm"})
    os.close(gate)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    # Keeps the terminal open after pmctl has ended.
    os.open(os.ptsname(terminal), os.O_RDWR | os.O_NOCTTY)
    before = termios.tcgetattr(terminal)
    os.close(opener)
    return pid, terminal, before


def exit_code(pid, terminal):
    """Waits for the end of a process, and discards its output."""
    until, ended, status = time.monotonic() + TIMEOUT, 0, 0
    while not ended:
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            raise Failed(f"the process does not end within {TIMEOUT} s")
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 4096)
        ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status)


def read_until(terminal, text):
    got, until = "", time.monotonic() + TIMEOUT
    while text not in got:
        if time.monotonic() > until or not select.select([terminal], [], [], TIMEOUT)[0]:
            raise Failed(f"the terminal shows {got!r}, but not {text!r}")
        got += os.read(terminal, 4096).decode(errors="replace")


@test
def a_command_that_cannot_run_on_a_terminal():
    pid, terminal, before = on_terminal("--run", "--", "no-such-program")
    read_until(terminal, "can't run `no-such-program`")
    expect(exit_code(pid, terminal), 127, "exit code without such a program")
    expect(termios.tcgetattr(terminal), before, "the settings of the terminal")


@test
def user_counts_repeat_to_the_instruction():
    events = "instructions:u,branches:u"
    # No pipes: how many bytes a read(2) returns depends on which program runs first.
    script = "gzip -c /usr/bin/env >/tmp/x; gzip -d </tmp/x >/tmp/y; cmp /tmp/y /usr/bin/env; md5sum /tmp/x"
    # The second run starts from the first run's snapshot. The last run starts from the snapshot of
    # another boot, as on another runner in CI.
    other = {**os.environ, "XDG_CACHE_HOME": make_writable("other-runner")}
    ways = [([], None), ([], None), (["--no-snapshot"], None), ([], other)]
    for cpu in ("intel", "amd"):
        results = []
        for options, env in ways:
            code, out, err = run("--cpu", cpu, *options, "--", "stat", "-x,", "-e", events, "--", "sh", "-c", script, env=env)
            expect(code, 0, err)
            results.append((parse_counts(err), out))
        expect(results, [results[0]] * len(ways), f"restored twice, booted, and another snapshot, {cpu}")
        expect(results[0][0]["instructions:u"] > 10_000_000, True, "the count is above 10 million")


# mov, 1000000 times dec and jnz, mov, xor, syscall.
LOOP = "mov $1000000, %ecx\n1: dec %ecx\njnz 1b\nmov $60, %eax\nxor %edi, %edi\nsyscall\n"
LOOP_INSTRUCTIONS = 2_000_004

# Three children with a loop each. The parent waits until there is no child.
FORKS = f"""
    mov $3, %ebx
fork: mov $57, %eax
    syscall
    test %eax, %eax
    jz loop
    dec %ebx
    jnz fork
wait: mov $61, %eax
    mov $-1, %rdi
    xor %esi, %esi
    xor %edx, %edx
    xor %r10d, %r10d
    syscall
    test %eax, %eax
    jns wait
    mov $60, %eax
    xor %edi, %edi
    syscall
loop: {LOOP}
"""
# A child starts after the system call instruction.
FORKS_INSTRUCTIONS = 1 + 3 * 6 + 3 * (2 + LOOP_INSTRUCTIONS) + 4 * 8 + 3


# Counts its own instructions:u by perf_event_open, executes the loop, and prints the 8 bytes of the count.
WRAPPED = """
    mov $298, %eax
    lea attr(%rip), %rdi
    xor %esi, %esi
    mov $-1, %edx
    mov $-1, %r10d
    xor %r8d, %r8d
    syscall
    mov $1000000, %ecx
1:  dec %ecx
    jnz 1b
    mov %eax, %edi
    xor %eax, %eax
    lea count(%rip), %rsi
    mov $8, %edx
    syscall
    mov $1, %eax
    mov $1, %edi
    syscall
    mov $60, %eax
    xor %edi, %edi
    syscall
.data
attr:
    .long 0, 64                 # PERF_TYPE_HARDWARE, PERF_ATTR_SIZE_VER0
    .quad 1, 0, 0, 0, 1 << 5    # PERF_COUNT_HW_INSTRUCTIONS, exclude_kernel
    .quad 0, 0
count:
    .quad 0
"""
# The instructions from the end of the first system call to the second, which reads the count.
WRAPPED_INSTRUCTIONS = 1 + 2 * 1_000_000 + 5


def assemble(name, text):
    """Assembles a program without libraries; returns its path."""
    program = os.path.join(FOLDER, name)
    source = ".globl _start\n_start: " + text
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", program, "-xassembler", "-"], input=source, text=True, check=True)
    return program


@test
def counts_are_those_of_the_program():
    programs = {assemble("loop", LOOP): LOOP_INSTRUCTIONS, assemble("forks", FORKS): FORKS_INSTRUCTIONS}
    for options in (["--cpus", "1"], ["--cpus", "2"], ["--cpu", "amd"]):
        for program, instructions in programs.items():
            code, _, err = run(*options, "--", "stat", "-x,", "-e", "instructions:u,branches:u", "--", program)
            expect((code, parse_counts(err)["instructions:u"]), (0, instructions), f"{program} with {options}: {err}")
    folder = make_writable("counts")
    code, _, err = run("--", "stat", "-x,", "-o", "file", "-e", "instructions:u", "--", next(iter(programs)), cwd=folder)
    expect(code, 0, err)
    with open(os.path.join(folder, "file"), encoding="ascii") as file:
        expect(parse_counts(file.read())["instructions:u"], LOOP_INSTRUCTIONS, "instructions in a file")


@test
def a_program_of_perf_is_wrapped():
    code, out, err = run("--", "wrap", "-v", "--", assemble("wrapped", WRAPPED))
    expect((code, int.from_bytes(out, "little")), (0, WRAPPED_INSTRUCTIONS), err)
    expect("an event of the driver's" in err, True, err)


@test
def all_runs_are_in_one_boot():
    folder = make_writable("boot")
    script = "cat /proc/sys/kernel/random/boot_id >>boots"
    words = ["bench", "-r", "3", "--warmup", "0", "-e", "instructions:u", f"sh -c '{script}'", f"sh -c '{script}; {script}'"]
    code, _, err = run("--out", "boots", "--", *words, cwd=folder)
    expect(code, 0, err)
    with open(os.path.join(folder, "boots"), encoding="ascii") as file:
        boots = file.read().split()
    expect((len(boots), len(set(boots))), (9, 1), "numbers of runs and boots")


@long_test
def exact_counts_of_the_kernel():
    words = ["--exact", "--", "stat", "-x,", "-e", "instructions:u,instructions:k", "--", "ls", "/usr/bin"]
    first, *others = (parse_counts(run(*options, *words)[2]) for options in ([], [], ["--no-snapshot"]))
    for other in others:
        expect(other["instructions:u"], first["instructions:u"], "instructions in user mode")
        spread = abs(first["instructions:k"] - other["instructions:k"]) / first["instructions:k"]
        expect(spread < 0.07, True, f"instructions in the kernel: {first} and {other}")


C_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(void) { long h = 1; for (int i = 0; i < 50000; i++) { char b[32]; h = h * 31 + sprintf(b, "%ld", h); } return printf("%ld\\n", h) < 0; }
"""
THREADS_PROGRAM = """
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static void *add(void *unused) { for (long i = 0; i < 100000; i++) { pthread_mutex_lock(&lock); sum += i; pthread_mutex_unlock(&lock); } return unused; }
int main(void) { pthread_t t[4]; for (int i = 0; i < 4; i++) pthread_create(t + i, 0, add, 0); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); return !sum; }
"""
# The standard library's hash with fixed keys.
RUST_PROGRAM = """
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
fn main() {
    let mut words: HashMap<String, u32, BuildHasherDefault<DefaultHasher>> = HashMap::default();
    for i in 0..20000_u32 { *words.entry(format!("{}", i * 7919 % 1009)).or_default() += 1; }
    println!("{}", words.values().sum::<u32>());
}
"""
PERL_PROGRAM = 'for my $i (0..20000) { $words{$i * 7919 % 1009}++ } print scalar(keys %words), "\\n"'
PYTHON_PROGRAM = "print(len({str(i * 7919 % 1009) for i in range(20000)}))"


def compile_program(folder, name, source, *compiler):
    """Compiles a program; returns its path."""
    program = os.path.join(folder, name)
    subprocess.run([*compiler, "-o", program, "-"], input=source, text=True, check=True)
    return program


@long_test
def languages_repeat_by_their_switches():
    folder = make_writable("languages")
    # The options of pmctl vm, the command, and the largest difference between runs.
    programs = {
        "C": ([], [compile_program(folder, "c", C_PROGRAM, "gcc", "-O2", "-xc")], 0),
        "Rust": ([], [compile_program(folder, "rust", RUST_PROGRAM, "rustc", "-O")], 0),
        "Perl": (["--env", "PERL_HASH_SEED=0", "--env", "PERL_PERTURB_KEYS=0"], ["perl", "-e", PERL_PROGRAM], 0),
        "Python": (["--env", "PYTHONHASHSEED=0"], ["python3", "-c", PYTHON_PROGRAM], 1000),
        "threads": ([], [compile_program(folder, "threads", THREADS_PROGRAM, "gcc", "-O2", "-pthread", "-xc")], 0.001),
    }
    for language, (options, program, difference) in programs.items():
        found = []
        for boot in ([], [], ["--no-snapshot"]):
            code, _, err = run(*boot, *options, "--", "stat", "-x,", "-e", "instructions:u", "--", *program)
            expect(code, 0, err)
            found.append(parse_counts(err)["instructions:u"])
        limit = difference * min(found) if difference < 1 else difference
        expect(max(found) - min(found) <= limit, True, f"{language}: {found} are the same")


@test
def a_recording_is_written_on_the_host():
    folder = make_writable("recording")
    code, _, err = run("--", "record", "-g", "-e", "instructions:u", "-c", "100003", "--", "gzip", "-c", "/usr/bin/env", cwd=folder)
    expect(code, 0, err)
    expect(os.listdir(folder), ["perf.data"], "names of the files")
    # A recording that fails leaves the previous one unchanged.
    expect(run("--", "record", "-e", "instructions:u", "--", "no-such-program", cwd=folder)[0], 127, "exit code")
    expect(os.listdir(folder), ["perf.data"], "names of the files")
    done = subprocess.run([PMCTL, "report", "--stdio", "--sort", "comm,dso"], cwd=folder, capture_output=True, text=True, check=False)
    expect((done.returncode, bool(re.search(r"gzip +gzip", done.stdout))), (0, True), done.stdout + done.stderr)


def on_host(*words, cwd):
    """Runs pmctl on the host; returns exit code, standard output, standard error."""
    done = subprocess.run([PMCTL, *words], cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def record(folder, name, program, *options):
    code, _, err = run(*options, "--", "record", "-c", "1", "-o", name, "--", *program, cwd=folder)
    expect((code, "LOST" in err), (0, False), err)


@test
def each_instruction_is_recorded():
    folder = make_writable("each")
    program = assemble("each_program", FORKS)
    record(folder, "before", [program])
    # The sum and the numbers of the three loops' instructions are exact.
    code, out, err = on_host("report", "--stdio", "-i", "before", cwd=folder)
    event = f"Samples: {FORKS_INSTRUCTIONS:,} of event 'instructions:uP'"
    expect((code, event in out, "each" in out), (0, True, True), out + err)
    code, out, err = on_host("script", "-i", "before", "-F", "ip,period", cwd=folder)
    executions = {}
    for line in out.splitlines():
        address, period = sorted(line.split(), key=lambda word: not re.fullmatch("[0-9a-f]{6,}", word))[:2]
        executions[address] = executions.get(address, 0) + int(period.replace(",", ""))
    expect(sorted(executions.values())[-2:], [3_000_000, 3_000_000], f"the most frequent instructions: {out[:500]}")
    expect(sum(executions.values()), FORKS_INSTRUCTIONS, "sum of all instructions")
    # A second recording is equal. If a program does more, the comparison of recordings says where.
    record(folder, "again", [program])
    gate = ("diff", "--fail-if", "instructions:u>+0%")
    code, out, err = on_host(*gate, "before", "again", cwd=folder)
    expect((code, "0 differences of counts, which are exact" in out), (0, True), out + err)
    assemble("each_program", FORKS.replace("$1000000", "$1000010"))
    record(folder, "after", [program])
    code, out, err = on_host(*gate, "before", "after", cwd=folder)
    expect((code, re.search(r"\+60 .*each_program .*", out) is not None, "`instructions:u` has" in err), (1, True, True), out + err)
    code, out, err = on_host("annotate", "-i", "after", cwd=folder)
    expect((code, len(re.findall(r"(?m)^ *(?:49|50)\.\d+ ", out))), (0, 2), out + err)


@test
def slow_interrupts_lose_no_samples():
    # The first interrupts take milliseconds, since QEMU has to translate the kernel's code.
    code, _, err = run("--", "record", "-o", "-", "-e", "cycles", "-c", "10007", "--", "ls", "/usr/bin")
    expect(code, 0, err)


@test
def the_recipe_finds_a_changed_line():
    with open(PAGE, encoding="utf-8") as file:
        block = re.search(r"\.\. code-block:: sh\n   :name: gate\n\n((?:    .*\n|\n)+)", file.read())
    steps = [line.strip() for line in block.group(1).splitlines() if "pmctl" in line]
    expect(len(steps), 2, "number of steps of the recipe")
    folder = os.path.join(FOLDER, "recipe")
    os.mkdir(folder)
    tools = os.path.join(folder, "tools")
    os.mkdir(tools)
    os.symlink(PMCTL, os.path.join(tools, "pmctl"))
    program = os.path.join(folder, "program.c")
    text = "#include <stdio.h>\nint main(void)\n{\n\tunsigned sum = 0;\n\tfor (unsigned i = 0; i < 100000; i++)\n\t\tsum += i * %s;\n\tprintf(\"%%u\\n\", sum);\n}\n"
    environment = {**os.environ, "PATH": tools + ":" + os.environ["PATH"]}
    codes = []
    for runner, (step, factor) in enumerate(((0, "3"), (1, "3"), (1, "(i | 3)"))):
        with open(program, "w", encoding="ascii") as file:
            file.write(text % factor)
        subprocess.run(["gcc", "-O1", "-o", os.path.join(folder, "program"), program], check=True)
        # Each runner has its own cache, without a snapshot.
        environment["XDG_CACHE_HOME"] = os.path.join(folder, f"cache{runner}")
        done = subprocess.run(["sh", "-c", steps[step]], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
    expect(codes, [0, 0, 1], f"exit codes: {done.stdout}{done.stderr}")
    with open(os.path.join(folder, "main.json"), encoding="ascii") as file:
        json.load(file)


@long_test
def too_little_memory_is_reported():
    code, _, err = run("--memory", "256", "--run", "--", "python3", "-c", "x = [bytearray(1 << 20) for _ in range(1000)]")
    expect((code != 0, "ran out of memory" in err), (True, True), err)
    code, _, err = shell("head -c 400000000 /dev/zero >/tmp/big", "--memory", "256")
    expect((code != 0, "filled the virtual machine's file system" in err), (True, True), err)


@long_test
def the_missing_network_is_reported():
    connect = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
    code, _, err = run("--run", "--", "python3", "-c", connect)
    expect((code, "has no network" in err), (1, True), err)
    # If no file names a resolver, glibc asks an address on loopback for names.
    resolve = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'?', ('127.0.0.53', 53)); raise SystemExit(4)"
    code, _, err = run("--run", "--", "python3", "-c", resolve)
    expect((code, "has no network" in err), (4, True), err)
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); raise SystemExit(4)"
    code, _, err = run("--run", "--", "python3", "-c", listen)
    expect((code, "network" in err), (4, False), err)
    code, _, err = run("--run", "--", "python3", "-c", f"try:\n    {connect}\nexcept OSError:\n    pass")
    expect((code, "network" in err), (0, False), err)


def make_snapshot(name):
    """Makes a snapshot in a cache of its own. Returns the cache, the snapshot's name, and the environment of runs with it."""
    cache = make_writable(name)
    env = {"PATH": os.environ["PATH"], "PERFMON_VM": os.environ["PERFMON_VM"], "XDG_CACHE_HOME": cache}
    expect(run("--run", "--", "true", env=env)[0], 0, "exit code of the first run")
    (snapshot,) = os.listdir(os.path.join(cache, "perfmon-vm"))
    return cache, snapshot, env


@long_test
def a_damaged_snapshot_is_made_again():
    cache, snapshot, env = make_snapshot("cache")
    for name, size in (("state", 100000), ("state", 0), ("memory", 4096)):
        os.truncate(os.path.join(cache, "perfmon-vm", snapshot, name), size)
        expect(run("--run", "--", "true", env=env)[0], 0, f"exit code with {name} of {size} bytes")
        expect(run("--run", "--", "true", env=env)[0], 0, "exit code of the next run")
    # QEMU does not notice a changed memory: the kernel crashes or hangs.
    with open(os.path.join(cache, "perfmon-vm", snapshot, "memory"), "r+b") as file:
        file.seek(16 << 20)
        file.write(bytes(1 << 20))
    code, out, err = run("--run", "--", "echo", "hi", env=env)
    expect((code, out, os.listdir(os.path.join(cache, "perfmon-vm"))), (0, b"hi\n", []), err)
    expect(run("--run", "--", "true", env=env)[0], 0, "exit code of the next run")
    # A machine that can't be started does not mean that the snapshot is bad: it is kept.
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 500000; exec "$@"', "sh", *command("--run", "--", "true")],
        env=env, capture_output=True, timeout=TIMEOUT, check=False,
    )
    expect((done.returncode, os.listdir(os.path.join(cache, "perfmon-vm"))), (125, [snapshot]), done.stderr)


@long_test
def a_snapshot_is_kept_on_a_busy_host():
    cache, snapshot, env = make_snapshot("busy")
    state = os.path.join(cache, "perfmon-vm", snapshot, "state")
    before = os.stat(state)
    # The machine gets some 2 percent of one CPU: a nice value of 10 weighs a tenth of a nice value
    # of 0. On a fast host the machine starts before pmctl says that this takes long: then it gets a
    # smaller part.
    for number in (6, 12, 24, 48):
        loops = [subprocess.Popen(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]) for _ in range(number)]
        STARTED_PROCESSES.extend(loops)
        try:
            done = subprocess.run(
                ["taskset", "-c", "0", "nice", "-n", "10", *command("--run", "--", "echo", "hi")],
                env=env, capture_output=True, timeout=600, check=False,
            )
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        expect((done.returncode, done.stdout), (0, b"hi\n"), done.stderr)
        after = os.stat(state)
        expect((after.st_ino, after.st_mtime_ns), (before.st_ino, before.st_mtime_ns), "the file of the snapshot")
        says_busy = b"Other programs use the CPUs" in done.stderr
        if says_busy:
            break
    expect(says_busy, True, done.stderr)


@long_test
def eight_machines_at_once_have_the_same_counts():
    words = command("--", "stat", "-x,", "-e", "instructions:u", "--", "/bin/true")
    machines = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=FOLDER) for _ in range(8)]
    STARTED_PROCESSES.extend(machines)
    ended = [(*machine.communicate(timeout=600), machine.returncode) for machine in machines]
    first = parse_counts(ended[0][1] + ended[0][0])
    expect(list(first), ["instructions:u"], ended[0])
    for out, err, code in ended:
        expect((code, parse_counts(err + out)), (0, first), err)


@test
def a_benchmark_leaves_out_what_is_emulated():
    code, out, err = run("--", "bench", "-r", "2", "--", "/bin/true")
    events = [line.split()[0] for line in out.decode().splitlines() if re.match(r"\s+\S+\s+1\s+[\d,]+", line)]
    expect((code, events, "emulated" in err), (0, ["instructions:u", "branches:u"], False), out)
    code, out, err = run("--", "bench", "-r", "3", "-e", "cycles", "--fail-if", "time>3600", "--", "/bin/true")
    expect((code, b"time" in out, "say nothing about a processor" in err), (0, True, True), err)


@long_test
def a_machine_that_does_not_start_is_reported():
    broken = os.path.join(FOLDER, "broken")
    shutil.copytree(os.environ["PERFMON_VM"], broken)
    with open(os.path.join(broken, "initrd"), "wb") as file:
        file.write(b"no file system")
    code, _, err = run("--image", broken, "--run", "--", "true")
    expect((code, "ended before the command did" in err, "panic" in err), (125, True, True), err)
    os.unlink(os.path.join(broken, "vmlinux"))
    code, _, err = run("--image", broken, "--run", "--", "true")
    expect((code, "has no virtual machine: the file" in err), (125, True), err)
    code, _, err = run("--run", "--", "true", env={"PATH": os.environ["PATH"]})
    expect((code, "Install the package perfmon-vm" in err), (125, True), err)


def main():
    chosen = TESTS
    if sys.argv[1:]:
        chosen = [function for function in TESTS + LONG_TESTS if function.__name__.startswith(tuple(sys.argv[1:]))]
    print(f"TAP version 13\n1..{len(chosen)}")
    failed = False
    for number, function in enumerate(chosen, 1):
        began = time.monotonic()
        try:
            function()
            verdict = "ok"
        except (Failed, subprocess.TimeoutExpired) as reason:
            print("# " + str(reason).replace("\n", "\n# "))
            verdict, failed = "not ok", True
        for process in STARTED_PROCESSES:
            process.kill()
        print(f"{verdict} {number} {function.__name__} ({time.monotonic() - began:.0f} s)", flush=True)
    sys.exit(failed)


FOLDER = os.path.join("/tmp", "test-vm")
os.mkdir(FOLDER)
os.chmod(FOLDER, 0o755)
main()
