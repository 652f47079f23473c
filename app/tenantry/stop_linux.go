// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// deafen has the kernel drop requests for new connections: who tries now gets
// no answer, tries again after a second and is refused then. Connections that
// are in the queue or half made can so be accepted to the last one; closing
// the listener would reset them.
func deafen(l *net.TCPListener) error {
	const flags, syn, ack = 13, 0x02, 0x10 // of the TCP header, where the filter looks
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	}
	return control(l, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
}

// waiting is how many connections are in the queue.
func waiting(l *net.TCPListener) (n int) {
	_ = control(l, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = int(info.Unacked) // what this field means for a listener
		}
		return err
	})
	return n
}

// lastRead takes what has arrived, whatever the deadline.
func lastRead(c net.Conn, p []byte) (n int) {
	if sc, ok := c.(syscall.Conn); ok {
		_ = control(sc, func(fd int) (err error) {
			n, err = unix.Read(fd, p)
			return err
		})
	}
	return n
}

func control(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}
