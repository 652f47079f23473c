// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package server

import (
	"errors"
	"net"
)

// dropSYNs is not supported outside Linux. A connection that arrives while the listener closes may
// be reset.
func dropSYNs(*net.TCPListener) error { return errors.ErrUnsupported }

// acceptQueueLen returns 0: only Linux reports the length of the accept queue.
func acceptQueueLen(*net.TCPListener) int { return 0 }

// readAvailable returns 0. A request whose first bytes arrive as its connection is interrupted may
// be lost.
func readAvailable(net.Conn, []byte) int { return 0 }
