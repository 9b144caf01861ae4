//! Tests of `request.rs`, which the image's build leaves out.

use super::*;
use std::os::unix::fs::FileExt;

fn piece(bytes: &mut [u8]) -> Piece {
    Piece { at: bytes.as_mut_ptr(), bytes: bytes.len() }
}

fn head(code: u32, sector: u64) -> Vec<u8> {
    [&code.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
}

fn volume(name: &str) -> File {
    let path = std::env::temp_dir().join(format!("volume-{name}-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    file
}

/// Sends one request; the status.
fn ask(file: &File, code: u32, sector: u64, out: &mut [u8], into: &mut [u8]) -> u8 {
    let (mut head, mut status) = (head(code, sector), [9]);
    let end = Some(piece(&mut status));
    let chain = Chain {
        head: 0,
        end,
        readable: vec![piece(&mut head[..7]), piece(&mut head[7..]), piece(out)],
        writable: vec![piece(into), piece(&mut status)],
        broken: false,
    };
    // `head[..7]` and `head[7..]` stand for a head in two pieces.
    match Request::parse(chain, 1 << 20) {
        Parsed::Good(request) => request.carry_out(file),
        Parsed::Bad(_, code) => code,
        Parsed::Hopeless => 255,
    }
}

fn segment(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn what_is_written_is_read_until_it_is_discarded() {
    let file = volume("data");
    let mut data: Vec<u8> = (0..8192).map(|each| each as u8 | 1).collect();
    assert_eq!(ask(&file, 1, 16, &mut data, &mut []), OK);
    assert_eq!(ask(&file, 4, 0, &mut [], &mut []), OK);
    let mut found = vec![0; 8192];
    assert_eq!(ask(&file, 0, 16, &mut [], &mut found), OK);
    assert_eq!(found, data);
    // Discard of the first page, zeroes in half of the second one, with and without leave to unmap.
    assert_eq!(ask(&file, 11, 0, &mut segment(16, 8, 0), &mut []), OK);
    assert_eq!(ask(&file, 13, 0, &mut segment(24, 2, 0), &mut []), OK);
    assert_eq!(ask(&file, 13, 0, &mut segment(26, 2, 1), &mut []), OK);
    assert_eq!(ask(&file, 0, 16, &mut [], &mut found), OK);
    assert!(found[..6144].iter().all(|byte| *byte == 0) && found[6144..] == data[6144..]);
    assert!(sys::has_hole(&file, 8192, 4096) && !sys::has_hole(&file, 12288, 4096));
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
}

#[test]
fn what_lies_outside_is_refused() {
    let file = volume("outside");
    let mut page = vec![1; 4096];
    assert_eq!(ask(&file, 1, 2041, &mut page, &mut []), FAILED);
    assert_eq!(ask(&file, 0, u64::MAX, &mut [], &mut page), FAILED);
    assert_eq!(ask(&file, 0, 0, &mut [], &mut page[..100]), FAILED);
    assert_eq!(ask(&file, 11, 0, &mut segment(2047, 2, 0), &mut []), FAILED);
    assert_eq!(ask(&file, 13, 0, &mut segment(u64::MAX, u32::MAX, 0), &mut []), FAILED);
    assert_eq!(ask(&file, 11, 0, &mut page[..15], &mut []), FAILED);
    assert_eq!(ask(&file, 77, 0, &mut [], &mut []), UNKNOWN);
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    let mut end = [0; 1];
    assert_eq!(file.read_at(&mut end, 1 << 20).unwrap(), 0);
}

#[test]
fn a_request_without_room_for_a_status_is_hopeless() {
    let mut head = head(0, 0);
    let chain =
        Chain { head: 3, readable: vec![piece(&mut head)], writable: vec![], broken: false, end: None };
    assert!(matches!(Request::parse(chain, 512), Parsed::Hopeless));
    let mut id = [1; 20];
    assert_eq!(ask(&volume("id"), 8, 0, &mut [], &mut id), OK);
    assert_eq!(&id, SERIAL);
}
