// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// below runs a server under a shell that waits for its input to end, as script
// does for PostgreSQL: however the parent ends, no process and no files stay.
const below = `
exec 3<&0
dir=$1; shift
"$@" >&2 3<&- &
server=$!
(read -r _ <&3; kill -KILL $server) >/dev/null 2>&1 &
wait $server
rm -rf "$dir"
`

// child is a server that runs from a folder of its own.
type child struct {
	dir    string
	parent io.Closer // closing it ends the server
	ended  chan struct{}
	log    *bytes.Buffer // safe to read once ended is closed
}

// startChild writes the files into a new folder, runs the program there, as
// another user when root asks, and waits until ready says so. $DIR in files and
// arguments stands for the folder.
func startChild(ctx context.Context, program string, args []string, files map[string]string, ready func(context.Context) error) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	exe, err := sbin(program)
	if err != nil {
		return nil, err
	}
	dir, who, err := furnish(program, files)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", below, program, dir, exe}, inDir(dir, args)...)...)
	cmd.Dir, cmd.SysProcAttr = dir, who
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC"}
	c := &child{dir: dir, ended: make(chan struct{}), log: new(bytes.Buffer)}
	cmd.Stdout, cmd.Stderr = c.log, c.log
	if c.parent, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), os.RemoveAll(dir))
	}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait()
	}()
	return c, c.await(ctx, program, ready)
}

func (c *child) await(ctx context.Context, program string, ready func(context.Context) error) error {
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

// Stop ends the server and removes its files.
func (c *child) Stop() {
	_ = c.parent.Close()
	<-c.ended
}

// furnish makes a server's folder and says who runs it.
func furnish(program string, files map[string]string) (string, *syscall.SysProcAttr, error) {
	dir, err := os.MkdirTemp("", "tenantry-"+program+"-")
	if err != nil {
		return "", nil, err
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		if uid, gid, err = unprivileged(); err != nil {
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

func inDir(dir string, args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, "$DIR", dir)
	}
	return out
}

// sbin finds a server's program, which a user's PATH often leaves out.
func sbin(program string) (string, error) {
	for _, path := range []string{program, "/usr/sbin/" + program} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: `make test` installs what tests need", program)
}
