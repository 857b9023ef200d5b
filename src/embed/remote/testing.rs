//! A server whose answers a test writes down; also for the tests of the whole house.
//!
//! A real socket and real HTTP; one thread for each connection, which ends with it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What came in.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    /// Names in small letters.
    pub headers: HashMap<String, String>,
    pub body: Value,
}

/// What is done with it.
pub enum Act {
    /// Status, headers, body.
    Say(u16, Vec<(&'static str, String)>, String),
    /// A file.
    Give(Vec<u8>),
    /// Nothing, until the other side hangs up.
    Hang,
    /// Hang up at once.
    Drop,
}

type Script = dyn Fn(&Request, usize) -> Act + Send + Sync;

pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// The script gets each request and how many came before it.
    pub fn start(script: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, script): (_, Arc<Script>) = (Arc::clone(&requests), Arc::new(script));
        // Ends with the process; the socket costs nothing.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                std::thread::spawn(move || serve(stream, &log, &*script));
            }
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// How many texts each request had, in order.
    pub fn sizes(&self) -> Vec<usize> {
        self.requests().iter().map(|it| texts(&it.body).len()).collect()
    }
}

/// The texts of a request, whatever the provider.
pub fn texts(body: &Value) -> Vec<String> {
    let list = ["/input/texts", "/input/contents", "/requests", "/input"]
        .iter()
        .find_map(|it| body.pointer(it)?.as_array())
        .unwrap();
    let text = |it: &Value| {
        let found = [Some(it), it.get("text"), it.pointer("/content/parts/0/text")];
        found.into_iter().flatten().find_map(Value::as_str).unwrap().to_owned()
    };
    list.iter().map(text).collect()
}

/// An answer as OpenAI gives it: to each text the vector (1, its length), last one first.
pub fn openai(request: &Request) -> Act {
    let mut data: Vec<Value> = texts(&request.body)
        .iter()
        .enumerate()
        .map(|(at, it)| json!({"index": at, "embedding": [1.0, it.chars().count()]}))
        .collect();
    data.reverse();
    say(200, json!({"data": data}))
}

pub fn say(status: u16, body: Value) -> Act {
    Act::Say(status, Vec::new(), body.to_string())
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Request>>, script: &Script) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let Some(request) = read(&mut reader) else { return };
        let before = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len() - 1
        };
        match script(&request, before) {
            Act::Drop => return,
            Act::Hang => {
                let _ended = reader.read(&mut [0]);
                return;
            }
            Act::Give(bytes) => {
                let length = bytes.len();
                let sent = write!(stream, "HTTP/1.1 200 X\r\ncontent-length: {length}\r\n\r\n");
                if sent.and_then(|()| stream.write_all(&bytes)).is_err() {
                    return;
                }
            }
            Act::Say(status, headers, body) => {
                let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    text.push_str(&format!("{name}: {value}\r\n"));
                }
                if write!(stream, "{text}\r\n{body}").is_err() {
                    return;
                }
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").map_or(Ok(0), |it| it.parse()).ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = match length {
        0 => Value::Null,
        _ => serde_json::from_slice(&body).ok()?,
    };
    Some(Request { path, headers, body })
}
