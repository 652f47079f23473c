// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package server

import "math"

// maxOpenFiles returns math.MaxInt32, because this platform has no such limit.
func maxOpenFiles() int { return math.MaxInt32 }
