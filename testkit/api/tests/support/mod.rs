//! A minimal HTTP server: reads a request, writes a scripted response.

use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Method, path and body of a request; the bytes of the response.
pub(crate) type Script = dyn Fn(&str, &str, &[u8]) -> Vec<u8> + Send + Sync;

/// Serves until the runtime ends. A response that begins with `!` is sent without it, and then the
/// connection is closed. Returns the URL.
pub(crate) async fn serve(script: Arc<Script>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(stream, Arc::clone(&script)));
        }
    });
    format!("http://{address}")
}

async fn serve_connection(stream: TcpStream, script: Arc<Script>) {
    let mut stream = BufReader::new(stream);
    while let Some((method, path, body)) = request(&mut stream).await {
        let answer = script(&method, &path, &body);
        let (answer, last) = match answer.strip_prefix(b"!") {
            Some(answer) => (answer, true),
            None => (answer.as_slice(), false),
        };
        if stream.write_all(answer).await.is_err() || last {
            return;
        }
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((method, path, body))
}

/// A response with a JSON body.
pub(crate) fn json(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n\
         {body}"
    )
    .into_bytes()
}
