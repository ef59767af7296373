//! Several processes, each with devices of its own: the key-value store by which their clients find each other.
//!
//! Clients put addresses and identifiers there from any of their threads, while they are made and later, when a collective
//! first runs. So it is a small server of the first process; where it listens is told to the others over MPI.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use meshwork_pjrt_abi::{self as abi, Code};
use meshwork_runtime::Runtime;

use crate::plugin::{PjrtError, slice};

/// What all processes have put.
#[derive(Default)]
pub(crate) struct Table {
    values: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    changed: Condvar,
}

impl Table {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_vec(), value.to_vec());
        self.changed.notify_all();
    }

    /// The value of `key`, as soon as somebody has put it; `None` if nobody does in time.
    fn get(&self, key: &[u8], wait: Duration) -> Option<Vec<u8>> {
        let end = Instant::now() + wait;
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = values.get(key) {
                return Some(value.clone());
            }
            let left = end.checked_duration_since(Instant::now())?;
            (values, _) = self.changed.wait_timeout(values, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The store, as one of the processes sees it.
pub(crate) enum Store {
    /// It is in this process.
    Here(Arc<Table>),
    /// It is in the first one.
    At(Vec<SocketAddr>),
}

/// Whether a message puts a value or asks for one.
const PUT: u8 = 1;
const GET: u8 = 2;

impl Store {
    /// The store of the processes of `runtime`, which all call this.
    pub fn start(runtime: &Runtime) -> Result<Store, PjrtError> {
        let failed = |what: String| PjrtError::Processes(what);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string();
        let hosts = runtime.all_gather(host.as_bytes()).map_err(|e| failed(e.to_string()))?;
        // Nobody else needs to reach it if all are here.
        let is_one_host = hosts.iter().all(|other| *other == host.as_bytes());
        let mut told = vec![];
        let mut table = None;
        if runtime.rank() == 0 {
            let listener = TcpListener::bind(if is_one_host { "127.0.0.1:0" } else { "0.0.0.0:0" });
            let (listener, address) = listener
                .and_then(|l| Ok((l.try_clone()?, l.local_addr()?)))
                .map_err(|e| failed(format!("cannot listen for the other processes: {e}")))?;
            let name = if is_one_host { "127.0.0.1".into() } else { host };
            told = format!("{name}:{}", address.port()).into_bytes();
            let shared = Arc::new(Table::default());
            table = Some(shared.clone());
            std::thread::spawn(move || serve(&listener, &shared));
        }
        let told = runtime.broadcast(0, &told).map_err(|e| failed(e.to_string()))?;
        if let Some(table) = table {
            return Ok(Store::Here(table));
        }
        let name = String::from_utf8_lossy(&told).into_owned();
        let found =
            name.to_socket_addrs().map_err(|e| failed(format!("cannot find the first process at {name}: {e}")))?;
        Ok(Store::At(found.collect()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            Store::Here(table) => table.put(key, value),
            Store::At(address) => drop(ask(address, PUT, Duration::ZERO, key, value)?),
        }
        Ok(())
    }

    fn get(&self, key: &[u8], wait: Duration) -> io::Result<Option<Vec<u8>>> {
        match self {
            Store::Here(table) => Ok(table.get(key, wait)),
            Store::At(address) => ask(address, GET, wait, key, &[]),
        }
    }
}

/// Sends one message to the server and returns its answer.
fn ask(at: &[SocketAddr], kind: u8, wait: Duration, key: &[u8], value: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut stream = TcpStream::connect(at)?;
    let mut message = vec![kind];
    message.extend((wait.as_millis() as u64).to_le_bytes());
    for part in [key, value] {
        message.extend((part.len() as u64).to_le_bytes());
        message.extend(part);
    }
    stream.write_all(&message)?;
    let mut found = [0];
    stream.read_exact(&mut found)?;
    let value = read_part(&mut stream)?;
    Ok((found[0] == 1).then_some(value))
}

fn read_number(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The longest key or value.
const LONGEST: u64 = 1 << 28;

fn read_part(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let size = read_number(stream)?;
    if size > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a part of {size} bytes")));
    }
    let mut part = vec![0; size as usize];
    stream.read_exact(&mut part)?;
    Ok(part)
}

fn serve(listener: &TcpListener, table: &Arc<Table>) {
    for stream in listener.incoming().flatten() {
        let table = table.clone();
        // A process that sends nonsense or goes away gets no answer; it finds out by itself.
        std::thread::spawn(move || answer(stream, &table));
    }
}

fn answer(mut stream: TcpStream, table: &Table) -> io::Result<()> {
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    let wait = Duration::from_millis(read_number(&mut stream)?);
    let (key, value) = (read_part(&mut stream)?, read_part(&mut stream)?);
    let found = if kind[0] == PUT {
        table.put(&key, &value);
        None
    } else {
        table.get(&key, wait)
    };
    let value = found.as_deref().unwrap_or_default();
    let mut reply = vec![u8::from(found.is_some())];
    reply.extend((value.len() as u64).to_le_bytes());
    reply.extend(value);
    stream.write_all(&reply)
}

/// What the plugin calls to put a value.
pub(crate) unsafe extern "C" fn put(args: *mut abi::KeyValuePut) -> *mut abi::Error {
    // SAFETY: the plugin hands over arguments of this call, with the store that was given to it.
    let (args, store) = unsafe { (&*args, &*args_store((*args).user_arg)) };
    let (key, value) = (slice(args.key.cast::<u8>(), args.key_size), slice(args.value.cast::<u8>(), args.value_size));
    match store.put(key, value) {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: as above.
        Err(e) => unsafe { error(args.callback_error, Code::Unavailable, &e.to_string()) },
    }
}

/// What the plugin calls to wait for a value.
pub(crate) unsafe extern "C" fn get(args: *mut abi::KeyValueGet) -> *mut abi::Error {
    // SAFETY: as in `put`; the results are the plugin's to read.
    unsafe {
        let (args, store) = (&mut *args, &*args_store((*args).user_arg));
        let key = slice(args.key.cast::<u8>(), args.key_size);
        let wait = Duration::from_millis(args.timeout_in_ms.max(0) as u64);
        match store.get(key, wait) {
            Ok(Some(value)) => {
                (args.value, args.value_size) = hand_over(&value);
                args.value_deleter_callback = Some(free);
                std::ptr::null_mut()
            }
            Ok(None) => {
                let message = format!("no process has put {} in {} ms", String::from_utf8_lossy(key), wait.as_millis());
                error(args.callback_error, Code::DeadlineExceeded, &message)
            }
            Err(e) => error(args.callback_error, Code::Unavailable, &e.to_string()),
        }
    }
}

/// What the plugin calls to look for a value.
pub(crate) unsafe extern "C" fn try_get(args: *mut abi::KeyValueTryGet) -> *mut abi::Error {
    // SAFETY: as in `get`.
    unsafe {
        let (args, store) = (&mut *args, &*args_store((*args).user_arg));
        let key = slice(args.key.cast::<u8>(), args.key_size);
        match store.get(key, Duration::ZERO) {
            Ok(Some(value)) => {
                (args.value, args.value_size) = hand_over(&value);
                args.value_deleter_callback = Some(free);
                std::ptr::null_mut()
            }
            Ok(None) => {
                let message = format!("no process has put {}", String::from_utf8_lossy(key));
                error(args.callback_error, Code::NotFound, &message)
            }
            Err(e) => error(args.callback_error, Code::Unavailable, &e.to_string()),
        }
    }
}

/// The store behind the argument that the plugin hands back.
fn args_store(user_arg: *mut c_void) -> *const Store {
    user_arg.cast()
}

/// Makes an error of the plugin.
unsafe fn error(make: *mut abi::CallbackError, code: Code, message: &str) -> *mut abi::Error {
    // SAFETY: the plugin gives a function that makes its errors.
    unsafe {
        match make.as_ref().copied().flatten() {
            Some(make) => make(code as c_int, message.as_ptr().cast(), message.len()),
            None => std::ptr::null_mut(),
        }
    }
}

/// A copy of `value` that [`free`] frees: its length stands before it.
fn hand_over(value: &[u8]) -> (*mut c_char, usize) {
    let mut copy = (value.len() as u64).to_le_bytes().to_vec();
    copy.extend(value);
    let start = Box::leak(copy.into_boxed_slice()).as_mut_ptr();
    // SAFETY: there are eight bytes before the value.
    (unsafe { start.add(8) }.cast(), value.len())
}

unsafe extern "C" fn free(value: *mut c_char) {
    // SAFETY: it is what `hand_over` made, which the plugin gives back once.
    unsafe {
        let start = value.cast::<u8>().sub(8);
        let size = u64::from_le_bytes(*start.cast::<[u8; 8]>()) as usize + 8;
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, size)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server and a process that asks it.
    fn pair() -> (Arc<Table>, Store) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let table = Arc::new(Table::default());
        let shared = table.clone();
        std::thread::spawn(move || serve(&listener, &shared));
        (table, Store::At(vec![address]))
    }

    #[test]
    fn what_one_process_puts_the_other_gets() {
        let (table, other) = pair();
        let here = Store::Here(table);
        other.put(b"topology/1", b"eight devices").unwrap();
        assert_eq!(here.get(b"topology/1", Duration::ZERO).unwrap().as_deref(), Some(&b"eight devices"[..]));
        here.put(b"empty", b"").unwrap();
        assert_eq!(other.get(b"empty", Duration::ZERO).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(other.get(b"nothing", Duration::ZERO).unwrap(), None);
        assert_eq!(here.get(b"nothing", Duration::from_millis(5)).unwrap(), None);
    }

    #[test]
    fn a_value_that_comes_later_is_waited_for() {
        let (table, other) = pair();
        let waiting = std::thread::spawn(move || other.get(b"late", Duration::from_secs(60)).unwrap());
        table.put(b"late", &vec![7; 100_000]);
        assert_eq!(waiting.join().unwrap(), Some(vec![7; 100_000]));
    }

    /// The calls that plugins make.
    #[test]
    fn callbacks_put_and_get() {
        unsafe extern "C" fn no_error(_: c_int, _: *const c_char, _: usize) -> *mut abi::Error {
            std::ptr::dangling_mut()
        }
        let mut make: abi::CallbackError = Some(no_error);
        let store = Store::Here(Arc::default());
        let user_arg = (&raw const store).cast_mut().cast::<c_void>();
        let (key, value) = (b"k", b"value");
        let mut put_args = abi::KeyValuePut {
            key: key.as_ptr().cast(),
            key_size: key.len(),
            value: value.as_ptr().cast(),
            value_size: value.len(),
            callback_error: &mut make,
            user_arg,
            ..crate::plugin::blank()
        };
        let mut get_args = abi::KeyValueTryGet {
            key: key.as_ptr().cast(),
            key_size: key.len(),
            callback_error: &mut make,
            user_arg,
            ..crate::plugin::blank()
        };
        // SAFETY: the arguments are those of the calls.
        unsafe {
            assert!(!try_get(&mut get_args).is_null());
            assert!(put(&mut put_args).is_null());
            assert!(try_get(&mut get_args).is_null());
            assert_eq!(slice(get_args.value.cast::<u8>(), get_args.value_size), value);
            get_args.value_deleter_callback.unwrap()(get_args.value);
        }
    }
}
