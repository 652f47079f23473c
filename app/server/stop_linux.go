// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropSYNs attaches a socket filter to the listener that drops packets with SYN and without ACK.
// A client that connects now gets no answer. It retransmits the SYN after a second, and is refused
// because the listener is closed by then. Connections in the accept queue and handshakes in
// progress are not affected and can still be accepted.
func dropSYNs(l *net.TCPListener) error {
	// flags is the offset of the flags byte in the TCP header; syn and ack are bits of that byte.
	const flags, syn, ack = 13, 0x02, 0x10
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	}
	return withFD(l, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
}

// acceptQueueLen returns the number of connections in the accept queue, and 0 when the kernel does
// not report it.
func acceptQueueLen(l *net.TCPListener) (n int) {
	_ = withFD(l, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = int(info.Unacked) // for a listener: the length of the accept queue
		}
		return err
	})
	return n
}

// readAvailable reads the bytes that have arrived on the connection, and ignores its read deadline.
// It returns the number of bytes, which is not positive when there are none.
func readAvailable(c net.Conn, p []byte) (n int) {
	if sc, ok := c.(syscall.Conn); ok {
		_ = withFD(sc, func(fd int) (err error) {
			n, err = unix.Read(fd, p)
			return err
		})
	}
	return n
}

// withFD calls do with the file descriptor of the connection or listener, and returns its error.
func withFD(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	if err := raw.Control(func(fd uintptr) { doErr = do(int(fd)) }); err != nil {
		return err
	}
	return doErr
}
