// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/pluginhost/verified"
	"github.com/tenantry/tenantry/app/cli"
)

// buildCheckInterval is the time between two checks for a new build of a plugin under development.
const buildCheckInterval = time.Second

// kindMail is the kind of mail platforms in the plugin catalog.
const kindMail = "mail"

// pluginUnderDevelopment is the plugin of `tenantry dev --plugin`. The plugin is copied into the
// plugin folder of the sandbox at the start and after each new build.
type pluginUnderDevelopment struct {
	name        string
	kind        string             // the plugin's kind in the catalog, such as kindMail
	program     string             // the path of the program that the author builds
	builtFile   string             // the file that changes with each build: the program, or the manifest of the plugin's files
	hostOptions pluginhost.Options // the plugin folder of the sandbox, and the limits of a plugin

	copiedSum [sha256.Size]byte // checksum of the built file that was copied last
	seen      fileState         // the state of the built file at the last check
	lastRead  fileState         // the state of the built file when its checksum was last computed
}

// fileState is a modification time and a size. It changes when the file is written.
type fileState struct {
	modified time.Time
	size     int64
}

// programOf returns the absolute path of a plugin's program. If folderOrProgram is a folder, the
// program is the file in it that has the name of the folder. Otherwise folderOrProgram is the
// program.
func programOf(folderOrProgram string) (string, error) {
	path, err := filepath.Abs(folderOrProgram)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, filepath.Base(path))
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", cli.WithFix(fmt.Errorf("--plugin: there is no program %s", path), "build the plugin, for example with `go build -o "+filepath.Base(path)+" .`")
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", cli.UsageError(fmt.Errorf("--plugin: %s is not a program", path))
	}
	return path, nil
}

// openPlugin puts the plugins of the folder base and the plugin under development into the plugin
// folder o.Dir. It returns the plugin under development. folderOrProgram is the value of --plugin
// (see programOf).
func openPlugin(ctx context.Context, folderOrProgram, base string, o pluginhost.Options) (*pluginUnderDevelopment, error) {
	program, err := programOf(folderOrProgram)
	if err != nil {
		return nil, err
	}
	if err := pluginhost.Overlay(base, o.Dir); err != nil {
		return nil, err
	}
	p := &pluginUnderDevelopment{program: program, builtFile: program, hostOptions: o}
	source, _, err := verified.Source(program)
	if err != nil {
		return nil, err
	}
	if source != program {
		p.builtFile = filepath.Join(source, verified.ManifestFile)
	}
	if p.seen, err = p.builtFileState(); err != nil {
		return nil, err
	}
	p.lastRead = p.seen
	if p.copiedSum, err = checksumOf(p.builtFile); err != nil {
		return nil, err
	}
	added, err := pluginhost.Add(ctx, o, program)
	if added.Name == "" {
		return nil, err
	}
	p.name, p.kind = added.Name, added.Kind
	return p, nil // an error says only that files of old builds remain
}

// builtFileState returns the state of the built file.
func (p *pluginUnderDevelopment) builtFileState() (fileState, error) {
	info, err := os.Stat(p.builtFile)
	if err != nil {
		return fileState{}, err
	}
	return fileState{info.ModTime(), info.Size()}, nil
}

// checksumOf returns the SHA-256 checksum of a file.
func checksumOf(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return [sha256.Size]byte(hash.Sum(nil)), err
}

// wasRebuilt reports whether the built file has content that was not copied yet, and returns the
// checksum of this content. If the file has changed since the last check, the build may still be
// writing it. wasRebuilt then returns false, and the next call checks again.
func (p *pluginUnderDevelopment) wasRebuilt() (sum [sha256.Size]byte, rebuilt bool) {
	now, err := p.builtFileState()
	if err != nil || now != p.seen {
		p.seen = now
		return sum, false
	}
	if now == p.lastRead {
		return sum, false
	}
	p.lastRead = now
	sum, err = checksumOf(p.builtFile)
	return sum, err == nil && sum != p.copiedSum
}

// watch calls use after each new build, until ctx ends. use gets the result of pluginhost.Add. If
// the new program describes itself as a different plugin, use gets only an error.
func (p *pluginUnderDevelopment) watch(ctx context.Context, interval time.Duration, use func(pluginhost.Addition, error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sum, rebuilt := p.wasRebuilt()
		if !rebuilt {
			continue
		}
		added, err := pluginhost.Add(ctx, p.hostOptions, p.program)
		switch added.Name {
		case "": // a later build with the same content is tried again
		case p.name:
			p.copiedSum = sum
		default:
			added, err = pluginhost.Addition{}, fmt.Errorf("the program describes itself as %q, not %q; start the sandbox again", added.Name, p.name)
		}
		if ctx.Err() == nil {
			use(added, err)
		}
	}
}

// useRebuilt returns a function for watch. The function makes the running service and the simulator
// use the new build, and tells the user. If the new build cannot be used, it logs a warning. If
// only its simulator cannot be restarted, or only files of old builds cannot be deleted, the
// service uses the new build, and the log has a warning.
func useRebuilt(ctx context.Context, p *pluginUnderDevelopment, host *pluginhost.Host, restartSimulator func(context.Context, string) error,
	log *slog.Logger, printText func(string)) func(pluginhost.Addition, error) {
	return func(added pluginhost.Addition, err error) {
		if err != nil && added.Name != "" { // the new build is in the catalog
			log.WarnContext(ctx, "files of old builds of the plugin remain", "plugin", p.name, "error", err)
			err = nil
		}
		if err == nil {
			if simulatorErr := restartSimulator(ctx, p.name); simulatorErr != nil {
				log.WarnContext(ctx, "the simulator of the rebuilt plugin could not be restarted", "plugin", p.name, "error", simulatorErr)
			}
			err = host.Reload()
		}
		if err != nil {
			log.WarnContext(ctx, "the rebuilt plugin is not used", "plugin", p.name, "error", err)
			return
		}
		log.InfoContext(ctx, "the rebuilt plugin is used", "plugin", p.name, "version", added.Version, "sha256", added.SHA256)
		printText(fmt.Sprintf("The plugin %s was built again and is in use (version %s, SHA-256 %.12s…).\n", p.name, added.Version, added.SHA256))
	}
}
