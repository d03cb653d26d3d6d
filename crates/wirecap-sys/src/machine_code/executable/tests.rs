use super::*;

#[test]
fn the_arguments_arrive() {
    // mov eax, esi; shl eax, 16; add eax, edx; movzx ecx, byte [rdi]; add eax, ecx; ret
    let code = [0x89, 0xf0, 0xc1, 0xe0, 0x10, 0x01, 0xd0, 0x0f, 0xb6, 0x0f, 0x01, 0xc8, 0xc3];
    // SAFETY: the function above, which reads the first byte of packets that have one.
    let function = unsafe { Executable::new(&code) }.unwrap();
    assert_eq!(function.run(&[7, 0], 300), (2 << 16) + 300 + 7);
    let across = std::thread::scope(|scope| scope.spawn(|| function.run(&[1], 0)).join().unwrap());
    assert_eq!(across, (1 << 16) + 1);
}

#[test]
fn no_code_is_an_error() {
    // SAFETY: there is no code to run.
    let refused = unsafe { Executable::new(&[]) }.unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
}
