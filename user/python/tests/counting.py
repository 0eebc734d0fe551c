# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the package perfmon on a machine with a PMU, with KTAP output like the project's other tests.

Usage: counting.py LIBRARY, which has the function `spin(n)` of 2 n instructions and a few more.
"""

import contextlib
import ctypes
import functools
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import perfmon

LOOP = ctypes.CDLL(sys.argv[1])
LOOP.spin.argtypes = [ctypes.c_long]
SPIN = LOOP.spin
USER = "instructions:u"
# The largest number of instructions of a call through ctypes and an exception.
MAX_CALL_COST = 30_000
# Number of passes after which the interpreter does not change its bytecode any more.
WARM_UP_PASSES = 50

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def expect(value, expected, what="value"):
    if value != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {value!r}")


def expect_near(count, expected):
    if not expected <= count <= expected + MAX_CALL_COST:
        raise AssertionError(f"expected {expected} and a call, got {count}")


def count_spin(n, **options):
    with perfmon.count(USER, **options) as c:
        SPIN(n)
    return c[USER]


def exception_message(kind, function, *args, **kwargs):
    """Returns the message of the exception that the call raises."""
    try:
        function(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


@test
def a_block_counts_its_instructions():
    one, two = (min(count_spin(n) for _ in range(5)) for n in (1_000_000, 2_000_000))
    expect_near(one, 2_000_000)
    expect(two - one, 2_000_000, "1,000,000 iterations more")


@test
def equal_blocks_count_the_same():
    counts = [count_spin(100_000) for _ in range(20)]
    # Interpreters before 3.13 try to adapt their bytecode again and again.
    allowed = 0 if sys.version_info >= (3, 13) else 500
    expect(max(counts) - min(counts) <= allowed, True, f"a spread of {allowed}: {counts}")


@test
def an_empty_block_counts_its_overhead():
    with perfmon.count(USER, "branches:u") as c:
        pass
    overhead = c.overhead
    print(f"# overhead: {overhead}, of an empty block {dict(c)}")
    expect(sorted(overhead), ["branches:u", USER], "events")
    expect(0 < overhead[USER] < 2000, True, f"overhead of {overhead[USER]}")
    expect(c.overhead, overhead, "the overhead, measured again")


@test
def counts_are_found_by_name():
    with perfmon.count(USER, "branches:u,cycles:k") as c:
        SPIN(1000)
    expect(c.events, (USER, "branches:u", "cycles:k"), "events")
    expect(dict(c), {USER: c.instructions, "branches:u": c.branches, "cycles:k": c.cycles}, "counts")
    expect((len(c), USER in c, "x" in c, c.get("x")), (3, True, False, None), "as a mapping")
    expect_near(c.instructions, 2000)
    expect(f"{USER}: {c[USER]:,}" in repr(c), True, repr(c))
    expect(f"{c[USER]:,}</td>" in c._repr_html_(), True, c._repr_html_())
    message = exception_message(KeyError, lambda: c["cycles"])
    expect("'cycles' is not counted; the counted events are instructions:u, branches:u, cycles:k" in message, True, message)
    exception_message(AttributeError, lambda: c.cycle)
    both = perfmon.count(USER, "instructions:k")
    with both:
        pass
    expect("may be any of instructions:u, instructions:k" in exception_message(AttributeError, lambda: both.instructions), True)


@test
def a_block_starts_and_stops():
    c = perfmon.count(USER)
    expect("nothing has been counted yet" in exception_message(perfmon.Error, lambda: c[USER]), True)
    expect("the block is not counting" in exception_message(perfmon.Error, c.stop), True)
    for _ in range(2):
        c.start()
        expect("the block is counting already" in exception_message(perfmon.Error, c.start), True)
        SPIN(1_000_000)
        now = c[USER]
        c.stop()
        expect_near(now, 2_000_000)
        expect((now < c[USER] < 2_000_000 + 2 * MAX_CALL_COST, c.running), (True, False), "after the stop")


@test
def an_exception_goes_on_and_ends_the_block():
    c = perfmon.count(USER)

    def fails():
        with c:
            SPIN(1000)
            raise KeyError("mine")

    expect(exception_message(KeyError, fails), "'mine'", "the exception")
    expect(c.running, False, "running")
    expect_near(c[USER], 2000)


@test
def blocks_are_nested():
    with perfmon.count(USER) as outer:
        SPIN(1000)
        with perfmon.count(USER) as inner:
            SPIN(1_000_000)
    expect_near(inner[USER], 2_000_000)
    expect(inner[USER] + 2000 < outer[USER] < inner[USER] + 10 * MAX_CALL_COST, True, f"{outer} around {inner}")


@test
def a_block_counts_its_own_thread():
    def work():
        SPIN(1_000_000)

    with perfmon.count(USER) as c:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    expect(c[USER] < 500_000, True, f"{c} without the thread")
    counts = []
    thread = threading.Thread(target=lambda: counts.append(count_spin(1_000_000)))
    thread.start()
    thread.join()
    expect_near(counts[0], 2_000_000)


@test
def a_process_has_threads_and_children():
    begin, end = threading.Event(), threading.Event()

    def earlier():
        begin.wait()
        SPIN(1_000_000)
        end.set()

    old = threading.Thread(target=earlier)
    old.start()
    with perfmon.count(USER, process=True) as c:
        begin.set()
        end.wait()
        new = threading.Thread(target=SPIN, args=(2_000_000,))
        new.start()
        new.join()
        pid = os.fork()
        if pid == 0:
            SPIN(4_000_000)
            os._exit(0)
        os.waitpid(pid, 0)
    old.join()
    expect(14_000_000 < c[USER] < 16_000_000, True, f"{c} of 14,000,000")
    with perfmon.count(USER, process=True) as c:
        subprocess.run(["true"], check=True)
    expect(c[USER] > 50_000, True, f"{c} with a program")


@test
def programs_with_more_rights_are_not_followed():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "true")
        shutil.copyfile("/bin/true", program)

        def executes(mode):
            os.chmod(program, mode)
            subprocess.run([program], check=True, user=65534, group=65534, extra_groups=[])

        # Mode 711: the user may not read the program.
        with perfmon.count(USER, process=True) as c:
            executes(0o755)
            expect(c.tasks_not_followed, 0, "tasks")
            executes(0o711)
            expect(c.tasks_not_followed, 1, "tasks within the block")
        expect(c.tasks_not_followed, 1, "tasks")
        counted = perfmon.count(USER, process=True)(executes)
        for _ in range(2):
            counted(0o711)
        expect(counted.count.tasks_not_followed, 2, "tasks of two calls")


@test
def a_function_is_counted_in_each_call():
    @perfmon.count(USER)
    def twice(depth=2):
        "Documented."
        SPIN(1_000_000)
        if depth > 1:
            twice(depth - 1)

    expect((twice.__doc__, twice.count.calls), ("Documented.", 0), "the function")
    twice()
    expect(twice.count.calls, 1, "calls")
    once = twice.count[USER]
    expect(4_000_000 < once < 4_100_000, True, f"{once} of a call within a call")
    threads = [threading.Thread(target=twice) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect((twice.count.calls, twice.count[USER] > 4 * 4_000_000), (4, True), repr(twice.count))


@test
def names_that_are_no_events_are_refused():
    message = exception_message(perfmon.EventError, perfmon.count, USER, "instrucions:u")
    expect("no event is called `instrucions`" in message and "Did you mean `instructions`?" in message, True, message)
    expect("there is no event" in exception_message(perfmon.EventError, perfmon.count), True)
    expect("no event is called '\\udc80'" in exception_message(perfmon.EventError, perfmon.count, "\udc80"), True)
    expect("twice" in exception_message(perfmon.EventError, perfmon.count, USER, USER), True)
    expect("braces" in exception_message(perfmon.EventError, perfmon.count, "{cycles,instructions}"), True)
    expect("chooses the counter" in exception_message(perfmon.EventError, perfmon.count, "instructions:PMC0"), True)
    for value, kind in ((1, "an int"), ([USER], "a list")):
        message = exception_message(TypeError, perfmon.count, value)
        expect(message, f'an event is a string: perfmon.count("a", "b"), not {kind}')
    expect("a pattern is a string" in exception_message(TypeError, perfmon.list, 5), True)


@test
def more_events_than_counters_are_refused():
    # The events differ, because equal events share a counter.
    events = [f"cpu/event=0xc4,umask=0,cmask={n}/u" for n in range(1, 40)]
    with contextlib.ExitStack() as stack:
        message = exception_message(perfmon.BusyError, lambda: [stack.enter_context(perfmon.count(event)) for event in events])
    expect("no counter is free" in message, True, message)
    # All counters are free again.
    expect_near(count_spin(1000), 2000)


@test
def events_are_listed():
    everything = perfmon.list()
    expect(("instructions" in everything, perfmon.list("INST*CTIONS")), (True, ["instructions"]), everything)
    expect(perfmon.available(), True, "available")
    perfmon.check()


@test
def a_child_counts_in_blocks_of_its_own():
    with perfmon.count(USER) as c:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if 2_000_000 <= count_spin(1_000_000) <= 2_000_000 + MAX_CALL_COST else 1)
        status = os.waitpid(pid, 0)[1]
    expect(status, 0, "the child's exit code")
    expect(c[USER] < 1_000_000, True, f"{c} without the child")


def exit_code(child):
    """Forks, and returns the exit code of the child, which is 0 if it returns without an exception."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child()
            code = 0
        except BaseException as reason:
            print(f"# the child: {type(reason).__name__}: {reason}".replace("\n", "\n# "), flush=True)
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def count_around(child, **options):
    """Returns the count of two spins, between which a child is forked."""
    with perfmon.count(USER, **options) as c:
        SPIN(2_000_000)
        expect(exit_code(lambda: child(c)), 0, "the child's exit code")
        SPIN(2_000_000)
    return c[USER]


@test
def a_child_does_not_stop_its_parent():
    parent = f"the block counts in process {os.getpid()}, which started it\nStart another block in this process."

    def leaves(c):
        c.__exit__(None, None, None)
        expect(exception_message(perfmon.Error, lambda: c[USER]), parent, "reading after the block")

    def stops(c):
        expect((c.running, exception_message(perfmon.Error, lambda: c[USER])), (False, parent), "reading")
        expect(exception_message(perfmon.Error, c.stop), parent, "stopping")
        expect("the block is not counting" in exception_message(perfmon.Error, c.stop), True)

    def starts(c):
        c.start()
        SPIN(10_000)
        c.stop()
        expect_near(c[USER], 20_000)

    for options in ({}, {"process": True}):
        for child in (leaves, stops, starts):
            counted = count_around(child, **options)
            expect(8_000_000 < counted < 9_000_000, True, f"{counted} around a child that {child.__name__}, {options}")


@test
def a_decorated_function_forks():
    parent = os.getpid()
    statuses = []

    class LeavesFunction(BaseException):
        pass

    def forks(raises):
        SPIN(1_000_000)
        pid = os.fork()
        if pid == 0:
            if raises:
                raise LeavesFunction
            return
        statuses.append(os.waitpid(pid, 0)[1])
        SPIN(1_000_000)

    for options in ({}, {"process": True}):
        for raises in (False, True):
            function = perfmon.count(USER, **options)(forks)
            code = 1
            try:
                function(raises)
                code = 0
            except LeavesFunction:
                code = 0
            finally:
                if os.getpid() != parent:
                    os._exit(code)
            counted = function.count[USER]
            expect(4_000_000 < counted < 5_000_000, True, f"{counted} of a function that forks, {options}")
    expect(statuses, [0] * 4, "the children's exit codes")


@test
def a_child_waits_for_no_lock_of_its_parent():
    locked, forked = threading.Event(), threading.Event()
    parent = os.getpid()

    def hold_lock():
        with perfmon._lock_of_sums:
            locked.set()
            forked.wait()

    @perfmon.count(USER)
    def spins():
        SPIN(1000)

    @perfmon.count(USER)
    def forks():
        pid = os.fork()
        if pid == 0:
            # Ends a child that waits for the lock.
            signal.alarm(100)
        forked.set()
        return pid

    holder = threading.Thread(target=hold_lock)
    holder.start()
    locked.wait()
    code = 1
    try:
        pid = forks()
        if pid == 0:
            spins()
            code = 0 if (forks.count.calls, spins.count.calls) == (0, 1) else 1
    finally:
        if os.getpid() != parent:
            os._exit(code)
    holder.join()
    expect(os.waitpid(pid, 0)[1], 0, "the child's exit code")
    expect(forks.count.calls, 1, "calls in the parent")


@test
def a_finalizer_may_call_a_function_while_its_sums_change():
    @perfmon.count(USER)
    def release():
        pass

    class Node:
        def __init__(self):
            self.me = self

        def __del__(self):
            release()

    @perfmon.count(USER)
    def work():
        return Node()

    was_enabled, threshold = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(5)
    # Ends a program that waits for its own lock.
    signal.alarm(100)
    for _ in range(2000):
        work()
    signal.alarm(0)
    gc.set_threshold(*threshold)
    if not was_enabled:
        gc.disable()
    expect(work.count.calls, 2000, "calls")
    expect(release.count.calls > 0, True, "calls of finalizers")


@test
def a_function_whose_body_runs_later_is_refused():
    def generator():
        yield

    async def coroutine():
        pass

    async def both():
        yield

    for function, kind in (
        (generator, "a generator function"),
        (coroutine, "a coroutine function"),
        (both, "an async generator function"),
    ):
        message = exception_message(TypeError, perfmon.count(USER), function)
        expect(message.startswith(f"{function.__name__} is {kind}: its body runs after the call\nPut"), True, message)
    message = exception_message(TypeError, perfmon.count(USER), threading.Thread)
    expect(message.startswith("Thread is a class: "), True, message)

    class Generates:
        def __call__(self):
            yield

    for function, kind in (
        (functools.partial(threading.Thread), "a class"),
        (functools.partial(functools.partial(generator)), "a generator function"),
        (Generates(), "a generator function"),
    ):
        message = exception_message(TypeError, perfmon.count(USER), function)
        expect(f" is {kind}: " in message, True, message)


@test
def a_cgroup_has_its_tasks():
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryDirectory() as mount:
        expect(libc.mount(b"none", mount.encode(), b"cgroup2", 0, None), 0, "mount")
        group = os.path.join(mount, "counted")
        try:
            os.mkdir(group)
            with perfmon.count(USER, cgroup="counted") as c:
                SPIN(100_000)
                expect(c[USER], 0, "the count of an empty cgroup")
                move(group)
                SPIN(100_000)
                move(mount)
                SPIN(1_000_000)
            # Besides the loop, a part of each of the two moves is counted.
            expect(200_000 <= c[USER] <= 200_000 + 2 * MAX_CALL_COST, True, c[USER])
            expect(str(c.cgroup), "counted")
            # The object keeps the cgroup, and so its mount, open.
            del c
            os.rmdir(group)
            message = exception_message(perfmon.Error, perfmon.count, USER, cgroup="counted")
            expect("there is no such cgroup" in message, True, message)
        finally:
            move(mount)
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(group)
            expect(libc.umount(mount.encode()), 0, "umount")
    message = exception_message(perfmon.Error, perfmon.count, USER, cgroup="counted")
    expect("no cgroups are mounted" in message, True, message)
    message = exception_message(perfmon.Error, perfmon.count, USER, cgroup="/", process=True)
    expect("a process and a cgroup" in message, True, message)


def move(cgroup):
    """Moves this process to a cgroup."""
    with open(os.path.join(cgroup, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))


def main():
    gc.disable()
    for _ in range(WARM_UP_PASSES):
        count_spin(1)
    print(f"TAP version 13\n1..{len(TESTS)}")
    failed = False
    for number, function in enumerate(TESTS, 1):
        try:
            function()
            verdict = "ok"
        except Exception as reason:  # any exception is a failure of the test
            print("# " + f"{type(reason).__name__}: {reason}".replace("\n", "\n# "))
            verdict, failed = "not ok", True
        print(f"{verdict} {number} {function.__name__}", flush=True)
    sys.exit(failed)


main()
