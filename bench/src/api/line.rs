//! An HTTP/1.1 client connection that uses little processor time, because it shares its processors
//! with the server.
//!
//! The cost of the client must not distort the measurement: a request is written into one buffer
//! and sent at once, a response is inspected in the buffer it was decrypted into, and nothing is
//! handed from task to task.

use super::connector::BenchStream;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Method, Request, StatusCode};
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// The maximum length of a response head, or of a line of it.
const CARRIED_BYTES_MAX: usize = 64 << 10;
/// A response with more headers than this does not come from a Kubernetes API server.
const HEADERS_MAX: usize = 64;

pub(crate) struct Http1Connection {
    stream: Box<dyn BenchStream>,
    output: Vec<u8>,
    /// Input that arrived in several parts and can only be parsed together. It precedes the bytes
    /// in the stream.
    carried: Vec<u8>,
    /// The number of input bytes already returned; they are discarded when more is requested.
    shown: usize,
    body: Http1Body,
}

impl Http1Connection {
    pub(crate) fn new(stream: Box<dyn BenchStream>) -> Self {
        Self {
            stream,
            output: Vec::new(),
            carried: Vec::new(),
            shown: 0,
            body: Http1Body::Length(0),
        }
    }

    /// Sends a request and reads the head of the response; [`Http1Connection::more`] has the rest.
    pub(crate) async fn ask(&mut self, request: &Request<Bytes>) -> io::Result<StatusCode> {
        self.output.clear();
        write_request(request, &mut self.output);
        self.stream.write_all(&self.output).await?;
        self.stream.flush().await?;
        loop {
            let input = arrived(&mut self.stream, &self.carried).await?;
            let Some(head) = read_head(input, request.method())? else {
                self.carry().await?;
                continue;
            };
            self.consume(head.length);
            self.body = head.body;
            if !head.status.is_informational() {
                return Ok(head.status);
            }
        }
    }

    /// The next bytes of the response, or None at its end.
    pub(crate) async fn more(&mut self) -> io::Result<Option<&[u8]>> {
        self.consume(self.shown);
        self.shown = 0;
        while !self.body.is_over() {
            let input = arrived(&mut self.stream, &self.carried).await?;
            if input.is_empty() {
                return self.body.cut_off().map(|()| None);
            }
            let (step, all) = (self.body.step(input)?, input.len());
            self.consume(step.skipped);
            if let Some(length) = step.data {
                self.shown = length;
                let input = arrived(&mut self.stream, &self.carried).await?;
                return Ok(Some(&input[..length]));
            }
            if step.skipped < all && !self.body.is_over() {
                self.carry().await?;
            }
        }
        Ok(None)
    }

    fn consume(&mut self, count: usize) {
        if self.carried.is_empty() {
            self.stream.consume(count);
        } else {
            self.carried.drain(..count);
        }
    }

    /// Waits for more input than has arrived.
    async fn carry(&mut self) -> io::Result<()> {
        if self.carried.len() > CARRIED_BYTES_MAX {
            return Err(malformed("a line of the answer is too long"));
        }
        loop {
            let first = self.carried.is_empty();
            let part = self.stream.fill_buf().await?;
            if part.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let count = part.len();
            self.carried.extend_from_slice(part);
            self.stream.consume(count);
            if !first {
                return Ok(());
            }
        }
    }
}

/// The unused input; empty only at the end of the connection.
async fn arrived<'a>(
    stream: &'a mut Box<dyn BenchStream>,
    carried: &'a [u8],
) -> io::Result<&'a [u8]> {
    match carried {
        [] => stream.fill_buf().await,
        carried => Ok(carried),
    }
}

fn write_request(request: &Request<Bytes>, out: &mut Vec<u8>) {
    let target = request.uri().path_and_query();
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.map_or("/", |target| target.as_str()).as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let body = request.body();
    if !body.is_empty() {
        out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

struct Http1ResponseHead {
    status: StatusCode,
    length: usize,
    body: Http1Body,
}

/// The head of a response, if all of it has arrived.
fn read_head(input: &[u8], asked: &Method) -> io::Result<Option<Http1ResponseHead>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(input).map_err(malformed)?;
    let httparse::Status::Complete(length) = parsed else {
        return Ok(None);
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default()).map_err(malformed)?;
    let empty = status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || asked == Method::HEAD;
    let body = if empty {
        Http1Body::Length(0)
    } else {
        body_of(response.headers)?
    };
    Ok(Some(Http1ResponseHead {
        status,
        length,
        body,
    }))
}

fn body_of(headers: &[httparse::Header<'_>]) -> io::Result<Http1Body> {
    let find = |name: http::HeaderName| {
        let mut found = headers.iter().filter(move |header| name == header.name);
        found.next().map(|header| header.value)
    };
    if find(TRANSFER_ENCODING).is_some() {
        return Ok(Http1Body::Chunked(Http1Chunk::Size));
    }
    let Some(length) = find(CONTENT_LENGTH) else {
        return Ok(Http1Body::UntilTheEnd);
    };
    let length = std::str::from_utf8(length)
        .ok()
        .and_then(|l| l.parse().ok());
    let length = length.ok_or_else(|| malformed("the length of the answer is no number"))?;
    Ok(Http1Body::Length(length))
}

fn malformed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, cause)
}

/// The remaining part of a response body.
#[derive(Debug)]
enum Http1Body {
    Length(u64),
    Chunked(Http1Chunk),
    /// Of the connection.
    UntilTheEnd,
}

#[derive(Debug)]
enum Http1Chunk {
    Size,
    Data(u64),
    /// The end of the line behind the data.
    Close,
    Trailers,
    Ended,
}

/// The number of bytes used, and the number of body bytes that follow; without it more input is
/// needed.
#[derive(Debug)]
struct DecodeStep {
    skipped: usize,
    data: Option<usize>,
}

impl Http1Body {
    fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Http1Chunk::Ended))
    }

    fn step(&mut self, input: &[u8]) -> io::Result<DecodeStep> {
        let data = match self {
            Self::Length(left) => take(left, input),
            Self::UntilTheEnd => Some(input.len()),
            Self::Chunked(chunk) => return chunk.step(input),
        };
        Ok(DecodeStep { skipped: 0, data })
    }

    /// The connection has ended; should it have?
    fn cut_off(&self) -> io::Result<()> {
        match self {
            Self::UntilTheEnd => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Http1Chunk {
    /// Steps over lines until there is data, or the end, or no whole line.
    fn step(&mut self, input: &[u8]) -> io::Result<DecodeStep> {
        let mut skipped = 0;
        loop {
            let rest = &input[skipped..];
            let line = match self {
                Self::Ended => break,
                Self::Data(left) => {
                    let data = take(left, rest);
                    if *left == 0 {
                        *self = Self::Close;
                    }
                    return Ok(DecodeStep { skipped, data });
                }
                Self::Size | Self::Close | Self::Trailers => memchr::memchr(b'\n', rest),
            };
            let Some(end) = line else { break };
            *self = self.after_line(&rest[..=end])?;
            skipped += end + 1;
        }
        let data = None;
        Ok(DecodeStep { skipped, data })
    }

    fn after_line(&self, line: &[u8]) -> io::Result<Self> {
        let empty = line.trim_ascii().is_empty();
        match self {
            Self::Close if empty => Ok(Self::Size),
            Self::Close => Err(malformed("a chunk is longer than it says")),
            Self::Trailers if empty => Ok(Self::Ended),
            Self::Trailers => Ok(Self::Trailers),
            _ => match httparse::parse_chunk_size(line) {
                Ok(httparse::Status::Complete((_, 0))) => Ok(Self::Trailers),
                Ok(httparse::Status::Complete((_, size))) => Ok(Self::Data(size)),
                _ => Err(malformed("the size of a chunk is no number")),
            },
        }
    }
}

/// The part of the input that belongs to the remaining body.
fn take(left: &mut u64, input: &[u8]) -> Option<usize> {
    let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    *left -= length as u64;
    (length > 0).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, BufReader, duplex};

    async fn answer(text: &str, step: usize) -> io::Result<(StatusCode, String)> {
        let (ours, mut theirs) = duplex(step);
        let ours = BufReader::with_capacity(step, ours);
        let mut line = Http1Connection::new(Box::new(ours));
        let text = text.to_owned();
        tokio::spawn(async move {
            let mut asked = [0; 256];
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let count = theirs.read(&mut asked).await?;
                seen.extend_from_slice(&asked[..count]);
            }
            theirs.write_all(text.as_bytes()).await
        });
        let request = Request::get("/a?b").header("host", "h").body(Bytes::new());
        let status = line.ask(&request.unwrap()).await?;
        let mut body = String::new();
        while let Some(part) = line.more().await? {
            body.push_str(std::str::from_utf8(part).unwrap());
        }
        Ok((status, body))
    }

    /// However the bytes arrive.
    #[tokio::test]
    async fn answers_are_read_to_their_end() {
        let cases = [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
                200,
                "hello",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nrest", 200, ""),
            (
                "HTTP/1.1 404 Not Found\r\n\r\nuntil the end",
                404,
                "until the end",
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 5\r\nhello\r\nb;x=y\r\n, you there\r\n0\r\na: b\r\n\r\nrest",
                200,
                "hello, you there",
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok",
                201,
                "ok",
            ),
        ];
        for (text, status, body) in cases {
            for step in [1, 2, 3, 7, 64, 4096] {
                let (seen, whole) = answer(text, step).await.unwrap();
                assert_eq!((seen.as_u16(), &*whole), (status, body), "{text} by {step}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_cut_off_or_no_answer_is_an_error() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello, you\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\nhello",
            "HTTP/1.1 200 OK\r\n",
            "hello",
            "",
        ] {
            let answer = answer(text, 64).await;
            assert!(answer.is_err(), "{text}: {answer:?}");
        }
        let long = format!(
            "HTTP/1.1 200 OK\r\na: {}\r\n",
            "x".repeat(2 * CARRIED_BYTES_MAX)
        );
        assert!(answer(&long, 4096).await.is_err());
    }

    #[test]
    fn a_request_is_written_as_it_is_meant() {
        let request = Request::post("/api?x=y")
            .header("host", "h:1")
            .body(Bytes::from_static(b"{}"));
        let mut out = Vec::new();
        write_request(&request.unwrap(), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "POST /api?x=y HTTP/1.1\r\nhost: h:1\r\ncontent-length: 2\r\n\r\n{}"
        );
    }
}
