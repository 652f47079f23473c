// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// supervisorScript runs a server. When the script's standard input ends, the script kills the
// server and removes the server's directory. The kernel closes the input when the parent process
// ends, even after a crash. The file server.pid in the directory has the server's process id. It is
// written before the server starts, so that it exists when the server answers.
const supervisorScript = `
exec 3<&0
dir=$1; shift
/bin/sh -c 'echo $$ >"$0"; exec "$@"' "$dir/server.pid" "$@" >&2 3<&- &
server=$!
(read -r _ <&3; kill -KILL $server) >/dev/null 2>&1 &
wait $server
rm -rf "$dir"
`

// child is a server process with its own directory.
type child struct {
	dir   string
	stdin io.Closer // closing it ends the server
	ended chan struct{}
	log   *bytes.Buffer // may be read after ended is closed
}

// startChild writes the files to a new directory, starts the program and waits until ready returns
// nil. If this process runs as root, the program runs as an unprivileged user. In files and
// arguments, startChild replaces $DIR by the directory. It fails if the program exits, or is not
// ready within serverTimeout.
func startChild(ctx context.Context, program string, args []string, files map[string]string, ready func(context.Context) error) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	exe, err := findProgram(program)
	if err != nil {
		return nil, err
	}
	dir, attr, err := newServerDir(program, files)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", supervisorScript, program, dir, exe}, expandDir(dir, args)...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC"}
	c, err := launch(cmd, dir, attr)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, c.awaitReady(ctx, program, ready)
}

// launch starts the script of a server in the server's directory. If it fails, it removes the
// directory.
func launch(cmd *exec.Cmd, dir string, attr *syscall.SysProcAttr) (*child, error) {
	c := &child{dir: dir, ended: make(chan struct{}), log: new(bytes.Buffer)}
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = dir, attr, c.log, c.log
	var err error
	if c.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait()
	}()
	return c, nil
}

func (c *child) awaitReady(ctx context.Context, program string, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("%s did not start:\n%s", program, c.log)
		case <-ctx.Done():
			c.Stop()
			return fmt.Errorf("%s does not answer: %w\n%s", program, err, c.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the server and waits until it has ended and its files are removed. It may be called
// more than once.
func (c *child) Stop() {
	_ = c.stdin.Close()
	<-c.ended
}

// newServerDir creates a directory with files that only the server may read. In the files, it
// replaces $DIR by the directory. It also returns the process attributes of the server. If this
// process runs as root, they make the server run as a different user, because PostgreSQL refuses to
// run as root.
func newServerDir(program string, files map[string]string) (string, *syscall.SysProcAttr, error) {
	dir, err := os.MkdirTemp("", "tenantry-"+program+"-")
	if err != nil {
		return "", nil, err
	}
	// The server gets its own process group, so that Ctrl-C in the terminal reaches only the tests.
	// The tests then end the server.
	attr := &syscall.SysProcAttr{Setpgid: true}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		if uid, gid, err = unprivilegedUser(); err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, []byte(strings.ReplaceAll(text, "$DIR", dir)), 0o600), os.Chown(path, uid, gid))
	}
	if err = errors.Join(err, os.Chown(dir, uid, gid)); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, attr, nil
}

func expandDir(dir string, args []string) []string {
	expanded := make([]string, len(args))
	for i, a := range args {
		expanded[i] = strings.ReplaceAll(a, "$DIR", dir)
	}
	return expanded
}

// findProgram returns the path of a server's program. It also searches /usr/sbin, which is often
// not in a user's PATH.
func findProgram(program string) (string, error) {
	for _, path := range []string{program, "/usr/sbin/" + program} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: `make test` installs what tests need", program)
}

// postgresBinaries returns the directory of PostgreSQL's programs. Debian installs each version in
// a directory that is not in PATH. postgresBinaries prefers the newest version. It also searches
// the directory of an initdb in PATH and, if that initdb is a link, the directory of the link's
// target.
func postgresBinaries() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(postgresVersion(b), postgresVersion(a)) })
	if found, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(found))
		if resolved, err := filepath.EvalSymlinks(found); err == nil {
			dirs = append(dirs, filepath.Dir(resolved))
		}
	}
	for _, dir := range dirs {
		if hasPostgresPrograms(dir) {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: apt-get install postgresql")
}

func postgresVersion(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

func hasPostgresPrograms(dir string) bool {
	for _, program := range []string{"initdb", "postgres", "psql"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

func unprivilegedUser() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, lookupErr := user.Lookup(name)
		if lookupErr != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			return uid, gid, nil
		}
	}
	return 0, 0, errors.New("a server must not run as root, and this system has no user postgres or nobody")
}
