// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server: connections and requests.
//!
//! One thread does all the work. A connection is closed if its client takes longer than [`CLIENT_TIMEOUT`]. When there
//! are [`MAX_CONNECTIONS`], the one that has waited longest for its client is closed for a new one. So slow or dead
//! clients take a little memory for a while, and don't delay others.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use perfmon::Pmu;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout_at};

use super::containers::Containers;
use super::counters::Counters;
use super::metrics::{self, ProfileOutcome, ServerTotals};
use super::page;
use super::profile;
use super::request::{self, Limits, ProfileRequest, Refusal, ServedPage};
use super::text::TextFormat;
use crate::events::cpus::Cpus;
use crate::system::machine::Machine;
use crate::system::stdio::complain;

/// The largest number of open connections.
const MAX_CONNECTIONS: usize = 32;
/// The largest size of the head of a request in bytes, which is the smallest limit that hyper accepts.
const MAX_HEAD_BYTES: usize = 8192;
/// The longest time that a client may take to send a request or to receive an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// State of the server.
pub(super) struct Server {
    pub(super) listen: SocketAddr,
    pub(super) counters: RefCell<Counters>,
    /// Counters of the cgroups of --cgroups.
    pub(super) containers: RefCell<Option<Containers>>,
    pub(super) cpus: Option<Cpus>,
    pub(super) limits: Limits,
    pub(super) pmu: Pmu,
    pub(super) started: SystemTime,
    pub(super) totals: RefCell<ServerTotals>,
    /// End of the recording of the profile that is being made, if there is one.
    pub(super) profile_end: Cell<Option<Instant>>,
    /// Open connections, the oldest first.
    pub(super) connections: RefCell<VecDeque<Connection>>,
}

/// A connection.
pub(super) struct Connection {
    state: Rc<ConnectionState>,
    abort: AbortHandle,
}

/// State of a connection for its timeout.
struct ConnectionState {
    /// Time at which the connection is closed.
    deadline: Cell<Instant>,
    /// The connection waits for a profile, and not for its client.
    waits_for_profile: Cell<bool>,
    /// The first request has not been answered, or a part of a further one has arrived.
    has_request: Cell<bool>,
    /// The client does not take the answer as fast as it is written.
    is_answer_pending: Cell<bool>,
}

impl ConnectionState {
    /// Creates the state of a new connection.
    fn new() -> Self {
        Self {
            deadline: Cell::new(Instant::now() + CLIENT_TIMEOUT),
            waits_for_profile: Cell::new(false),
            has_request: Cell::new(true),
            is_answer_pending: Cell::new(false),
        }
    }

    /// Sets the deadline for the client, which has to act next. Must be called when the answer to its request is ready.
    fn wait_for_client(&self) {
        self.waits_for_profile.set(false);
        self.has_request.set(false);
        self.deadline.set(Instant::now() + CLIENT_TIMEOUT);
    }

    /// Runs a connection until it ends, until its deadline is over, or, while a profile is made,
    /// until the client closes it. Returns whether the client has taken too long to send a request
    /// or to receive an answer. Returns false if the client was idle between two requests.
    async fn run_until_end(&self, connection: impl Future, socket: &TcpStream) -> bool {
        let (mut connection, mut closed) = (pin!(connection), pin!(client_close(socket)));
        loop {
            let end = poll_fn(|context| {
                let has_ended = connection.as_mut().poll(context).is_ready();
                // hyper does not notice that the client has closed the connection, if the client had sent more than the
                // request.
                if has_ended
                    || (self.waits_for_profile.get() && closed.as_mut().poll(context).is_ready())
                {
                    return Poll::Ready(());
                }
                Poll::Pending
            });
            // A deadline that is set during this wait is at least CLIENT_TIMEOUT away, and so not before the end of this
            // wait.
            let wait_end = self.deadline.get().min(Instant::now() + CLIENT_TIMEOUT);
            if timeout_at(wait_end, end).await.is_ok() {
                return false;
            }
            if self.deadline.get() <= Instant::now() {
                return self.has_request.get() || self.is_answer_pending.get();
            }
        }
    }
}

/// The stream of a connection, which notes in its state what the connection waits for.
struct WatchedStream {
    stream: TcpStream,
    state: Rc<ConnectionState>,
}

impl WatchedStream {
    /// Notes whether the client takes the answer, and returns the result of the write.
    fn note_write<T>(&self, result: Poll<T>) -> Poll<T> {
        self.state.is_answer_pending.set(result.is_pending());
        result
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length_before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > length_before {
            self.state.has_request.set(true);
        }
        result
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Duplicates the socket of a connection, to notice that the client has closed its half while hyper uses the
/// connection.
fn duplicate_socket(stream: &TcpStream) -> io::Result<TcpStream> {
    let socket = stream.as_fd().try_clone_to_owned()?;
    TcpStream::from_std(socket.into())
}

/// Waits until the client has closed its half of a connection.
async fn client_close(socket: &TcpStream) {
    while let Ok(ready) = socket.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        // Available bytes are for hyper. This clears the readiness, so that the next wait is for later events.
        let would_block = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = socket.try_io(Interest::READABLE, would_block);
    }
}

type Answer = Response<Full<Bytes>>;

impl Server {
    /// Serves until SIGTERM or SIGINT. Calls `on_ready` after the handlers of these signals are set.
    ///
    /// # Errors
    /// The socket or the signals can't be used.
    pub(super) async fn run(self, listener: TcpListener, on_ready: impl FnOnce()) -> Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)
            .context("can't wait for connections on the socket")?;
        let end = Rc::new(Notify::new());
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut signal =
                signal(kind).context("can't set the handlers of SIGTERM and SIGINT")?;
            let end = Rc::clone(&end);
            spawn_local(async move {
                signal.recv().await;
                end.notify_one();
            });
        }
        on_ready();
        let server = Rc::new(self);
        spawn_local(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => server.accept(stream),
                    // There are no free descriptors, or the client has closed the connection.
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        });
        end.notified().await;
        Ok(())
    }

    /// Starts to serve a new connection.
    fn accept(self: &Rc<Self>, stream: TcpStream) {
        self.totals.borrow_mut().connections += 1;
        self.close_idle_connection();
        let state = Rc::new(ConnectionState::new());
        let (server, task_state) = (Rc::clone(self), Rc::clone(&state));
        let task = spawn_local(async move {
            server.serve_connection(stream, &task_state).await;
            let mut connections = server.connections.borrow_mut();
            connections.retain(|connection| !Rc::ptr_eq(&connection.state, &task_state));
        });
        self.connections.borrow_mut().push_back(Connection {
            state,
            abort: task.abort_handle(),
        });
    }

    /// Closes the connection that has waited longest for its client, if there are [`MAX_CONNECTIONS`].
    fn close_idle_connection(&self) {
        let mut connections = self.connections.borrow_mut();
        if connections.len() < MAX_CONNECTIONS {
            return;
        }
        let idle = connections
            .iter()
            .enumerate()
            .filter(|(_, connection)| !connection.state.waits_for_profile.get());
        let longest_waiting = idle.min_by_key(|(_, connection)| connection.state.deadline.get());
        if let Some(connection) = longest_waiting
            .map(|(index, _)| index)
            .and_then(|index| connections.remove(index))
        {
            connection.abort.abort();
            self.totals.borrow_mut().dropped += 1;
        }
    }

    /// Serves a connection until it ends.
    async fn serve_connection(self: &Rc<Self>, stream: TcpStream, state: &Rc<ConnectionState>) {
        let service = service_fn(|request| {
            let (server, state) = (Rc::clone(self), Rc::clone(state));
            async move {
                let answer = server.answer_request(request, &state).await;
                state.wait_for_client();
                Ok::<_, Infallible>(answer)
            }
        });
        // Without a free descriptor, the connection is closed.
        let Ok(socket) = duplicate_socket(&stream) else {
            return;
        };
        let stream = WatchedStream {
            stream,
            state: Rc::clone(state),
        };
        let connection = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        // Errors of a connection are caused by its client, and are not reported. hyper answers
        // malformed requests and those with too large a head, which count as refused; it does not
        // answer the beginning of HTTP/2.
        let connection = async {
            let result = connection.await;
            if result.is_err_and(|error| error.is_parse() && !error.is_parse_version_h2()) {
                self.totals.borrow_mut().refused += 1;
            }
        };
        if state.run_until_end(connection, &socket).await {
            self.totals.borrow_mut().dropped += 1;
        }
    }

    /// Answers a request.
    async fn answer_request(&self, request: Request<Incoming>, state: &ConnectionState) -> Answer {
        let page = request::requested_page(
            request.method(),
            request.uri(),
            request.headers(),
            self.listen,
        );
        let answer = match page {
            Ok(ServedPage::Metrics) => {
                let accept = request
                    .headers()
                    .get(ACCEPT)
                    .and_then(|value| value.to_str().ok());
                self.metrics_answer(TextFormat::from_accept_header(accept))
            }
            Ok(ServedPage::Profile) => self.profile_answer(request.uri().query(), state).await,
            Ok(ServedPage::Index) => Ok(page_answer(
                "text/html; charset=utf-8",
                page::index(
                    (&self.counters.borrow(), self.containers.borrow().as_ref()),
                    self.limits,
                ),
            )),
            Ok(ServedPage::Health) => Ok(page_answer(
                "text/plain; charset=utf-8",
                "pmctl serve is healthy.\n",
            )),
            Err(refusal) => Err(refusal),
        };
        answer.unwrap_or_else(|refusal| self.refusal_answer(refusal))
    }

    /// Answers with the metrics.
    fn metrics_answer(&self, format: TextFormat) -> Result<Answer, Refusal> {
        self.totals.borrow_mut().scrapes += 1;
        let open_connections = self.connections.borrow().len();
        let text = metrics::write(
            format,
            (
                &mut self.counters.borrow_mut(),
                self.containers.borrow_mut().as_mut(),
            ),
            (&self.totals.borrow(), open_connections),
            self.started,
        );
        match text {
            Ok(text) => Ok(page_answer(format.content_type(), text)),
            Err(error) => Err(Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                error.to_string(),
            )),
        }
    }

    /// Makes a profile, and answers with it.
    async fn profile_answer(
        &self,
        query: Option<&str>,
        state: &ConnectionState,
    ) -> Result<Answer, Refusal> {
        let request = ProfileRequest::parse(query, self.limits)?;
        profile::check_event(&request.event, &Machine::here(), &self.pmu)?;
        if self.profile_end.get().is_some() {
            self.totals
                .borrow_mut()
                .count_profile(ProfileOutcome::Refused);
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Another profile is being made, and the server makes one at a time. Try again after the time in Retry-After.",
            ));
        }
        let mut in_progress = ProfileInProgress::new(self, &request, state);
        let result = profile::make_profile(&request, self.cpus.as_ref()).await;
        in_progress.outcome = match &result {
            Ok(profile) if profile.incomplete_message.is_none() => ProfileOutcome::Complete,
            Ok(_) => ProfileOutcome::Incomplete,
            Err(_) => ProfileOutcome::Failed,
        };
        let profile = result?;
        if let Some(message) = profile.incomplete_message {
            complain(format_args!("a profile is incomplete: {message}"));
        }
        let mut answer = page_answer("application/octet-stream", profile.bytes);
        set_header(
            &mut answer,
            CONTENT_DISPOSITION,
            "attachment; filename=\"profile.pb.gz\"",
        );
        Ok(answer)
    }

    /// Counts a refusal, and returns the answer for it.
    fn refusal_answer(&self, refusal: Refusal) -> Answer {
        let Refusal {
            status,
            reason,
            allow,
        } = refusal;
        self.totals.borrow_mut().refused += 1;
        let mut answer = page_answer("text/plain; charset=utf-8", reason + "\n");
        *answer.status_mut() = status;
        if let Some(methods) = allow {
            set_header(&mut answer, ALLOW, methods);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let time_left = self.profile_end.get().map_or(Duration::ZERO, |end| {
                end.saturating_duration_since(Instant::now())
            });
            let seconds = (time_left.as_secs() + 1).to_string();
            set_header(&mut answer, RETRY_AFTER, &seconds);
        }
        answer
    }
}

/// Marks that a profile is being made, as long as this value exists. The value is also dropped when
/// the client closes the connection.
struct ProfileInProgress<'a> {
    server: &'a Server,
    outcome: ProfileOutcome,
}

impl<'a> ProfileInProgress<'a> {
    fn new(server: &'a Server, request: &ProfileRequest, state: &ConnectionState) -> Self {
        let end = Instant::now() + Duration::from_secs(request.seconds.into());
        server.profile_end.set(Some(end));
        state.waits_for_profile.set(true);
        // Making the profile has a timeout of its own, which ends before this deadline.
        state.deadline.set(end + 4 * CLIENT_TIMEOUT);
        Self {
            server,
            outcome: ProfileOutcome::Abandoned,
        }
    }
}

impl Drop for ProfileInProgress<'_> {
    fn drop(&mut self) {
        self.server.profile_end.set(None);
        self.server.totals.borrow_mut().count_profile(self.outcome);
    }
}

/// Returns an answer with a page.
fn page_answer(content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    set_header(&mut answer, CONTENT_TYPE, content_type);
    set_header(&mut answer, CACHE_CONTROL, "no-store");
    set_header(&mut answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

/// Sets a header, unless the value has characters that are not allowed in headers.
fn set_header(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io::Write;

    use tokio::runtime::Builder;
    use tokio::time::{pause, resume, timeout};

    use super::*;

    /// Runs a test with a clock and sockets.
    fn run(test: impl Future) {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("there is one").block_on(test);
    }

    /// Returns the client's and the server's end of a connection.
    async fn connect() -> (std::net::TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        let client = std::net::TcpStream::connect(address).expect("it listens");
        let (stream, _) = listener.accept().await.expect("it is there");
        (client, stream)
    }

    #[test]
    fn a_profile_ends_when_the_client_closes() {
        run(async {
            let (mut client, stream) = connect().await;
            let socket = duplicate_socket(&stream).expect("there are descriptors");
            let state = ConnectionState::new();
            let service = service_fn(|_| {
                state.waits_for_profile.set(true);
                state.deadline.set(Instant::now() + 4 * CLIENT_TIMEOUT);
                pending::<Result<Answer, Infallible>>()
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let mut run = pin!(state.run_until_end(connection, &socket));
            let request = b"GET / HTTP/1.1\r\n\r\nand more";
            client.write_all(request).expect("it is open");
            while !state.waits_for_profile.get() {
                let early = timeout(Duration::from_millis(100), run.as_mut()).await;
                assert!(early.is_err());
            }
            drop(client);
            assert_eq!(timeout(3 * CLIENT_TIMEOUT, run).await, Ok(false));
        });
    }

    #[test]
    fn the_clients_timeout_begins_after_the_profile() {
        run(async {
            let (_client, stream) = connect().await;
            let socket = duplicate_socket(&stream).expect("there are descriptors");
            pause();
            let (begin, profile) = (Instant::now(), 3 * CLIENT_TIMEOUT / 2);
            let state = ConnectionState::new();
            let connection = async {
                state.waits_for_profile.set(true);
                state.deadline.set(begin + profile + 4 * CLIENT_TIMEOUT);
                sleep(profile).await;
                state.wait_for_client();
                pending::<()>().await;
            };
            assert!(!state.run_until_end(connection, &socket).await);
            let wait_time = (begin + profile).elapsed();
            assert!(
                wait_time >= CLIENT_TIMEOUT && wait_time < CLIENT_TIMEOUT + CLIENT_TIMEOUT / 10
            );
        });
    }

    /// Serves an answer of `length` bytes to a client that sends `request`, until `is_served`
    /// returns true for the state of the connection. Returns whether the client counts as slow at
    /// the deadline.
    async fn is_slow(
        request: &[u8],
        length: usize,
        is_served: fn(&ConnectionState) -> bool,
    ) -> bool {
        let (mut client, stream) = connect().await;
        let socket = duplicate_socket(&stream).expect("there are descriptors");
        client.write_all(request).expect("it is open");
        let state = Rc::new(ConnectionState::new());
        let service = service_fn(|_| async {
            state.wait_for_client();
            Ok::<_, Infallible>(Answer::new(vec![0; length].into()))
        });
        let stream = WatchedStream {
            stream,
            state: Rc::clone(&state),
        };
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut run = pin!(state.run_until_end(connection, &socket));
        // The clock is stopped only after the bytes have arrived.
        loop {
            let early = timeout(Duration::from_millis(100), run.as_mut()).await;
            assert!(early.is_err());
            if is_served(&state) {
                break;
            }
        }
        pause();
        let is_slow = run.await;
        resume();
        is_slow
    }

    #[test]
    fn only_clients_with_a_request_or_an_answer_are_slow() {
        run(async {
            let request = b"GET / HTTP/1.1\r\n\r\n";
            assert!(!is_slow(request, 1, |state| !state.has_request.get()).await);
            assert!(is_slow(b"", 1, |_| true).await);
            assert!(is_slow(b"GET", 1, |_| true).await);
            // An answer that is larger than the buffers of the socket.
            assert!(is_slow(request, 1 << 26, |state| state.is_answer_pending.get()).await);
        });
    }
}
