// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// deafen has the kernel drop whatever else comes to a listener: who connects
// now is not answered, tries again after a second and is refused then. Those
// already in the queue can so be accepted to the last one; closing the
// listener would reset them.
func deafen(l *net.TCPListener) error {
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	return control(l, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
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
