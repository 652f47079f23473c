// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// errChecksum says that a plugin's file is not the one in the catalog.
var errChecksum = errors.New("the file is not the one in the catalog (SHA-256 differs)")

// openVerified opens a plugin's file and checks its content. The file must
// stay open until the process runs: what is executed is this open file, so
// nobody can put another one in its place after the check.
func openVerified(dir string, e Entry) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, e.File))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != strings.ToLower(e.SHA256) {
		_ = f.Close()
		return nil, errChecksum
	}
	return f, nil
}

// executable names the open file for exec. Linux can execute a descriptor, by
// the host's process id because the child's numbers may differ. Elsewhere the
// permissions of the folder have to do.
func executable(f *os.File) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
	}
	return f.Name()
}
