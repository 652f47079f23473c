// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// binaries finds the folder with PostgreSQL's programs. Debian keeps them out
// of the PATH; of several versions the newest is taken. A lone initdb in the
// PATH may be a link, so its neighbours are looked for where it points.
func binaries() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	if found, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(found))
		if real, err := filepath.EvalSymlinks(found); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, dir := range dirs {
		if complete(dir) {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: apt-get install postgresql")
}

func version(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres", "psql"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

// home makes a server's folder with a file that only it may read, and says who
// runs it: PostgreSQL refuses to run as root, so root hands it to another user.
func home(server, name, content string) (string, *syscall.SysProcAttr, error) {
	dir, err := os.MkdirTemp("", "tenantry-"+server+"-")
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return "", nil, err
	}
	// A group of its own: Ctrl-C at the terminal is for the tests, which end
	// the server when they are done with it.
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return dir, attr, nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, attr, errors.Join(os.Chown(dir, uid, gid), os.Chown(file, uid, gid))
}

func unprivileged() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, lookup := user.Lookup(name)
		if lookup != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			return uid, gid, nil
		}
	}
	return 0, 0, errors.New("servers do not run as root here, and there is no user postgres or nobody to run one")
}
