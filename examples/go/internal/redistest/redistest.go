// Package redistest starts Redis servers with the module for a test, alone or as a cluster, and
// lets them fail.
package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server on 127.0.0.1 that ends with the test.
type Server struct {
	Addr string
	t    testing.TB
	args []string
	cmd  *exec.Cmd
	*redis.Client
}

// Start starts a server with the module.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartPlain(t, append([]string{"--loadmodule", module(t)}, args...)...)
}

// StartPlain starts a server as it is.
func StartPlain(t testing.TB, args ...string) *Server {
	t.Helper()
	port := freePort(t)
	s := &Server{Addr: "127.0.0.1:" + port, t: t}
	s.args = append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--logfile", "redis.log",
	}, args...)
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { s.Kill(); _ = s.Close() })
	s.Restart()
	return s
}

// Restart starts a server that was killed, on its port.
func (s *Server) Restart() {
	s.t.Helper()
	s.cmd = exec.Command(env("RL_TEST_SERVER", "redis-server"), s.args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	Eventually(s.t, 10*time.Second, "a server that answers", func() bool {
		return s.Ping(context.Background()).Err() == nil
	})
}

// Kill is the crash of a server.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Hang stops the process: its connections stay, and nothing answers. Continue ends that.
func (s *Server) Hang()     { s.signal(syscall.SIGSTOP) }
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Stat is a number of an INFO section, such as ("commandstats", "cmdstat_rl.acquirex:calls="); 0
// if it is not there.
func (s *Server) Stat(section, prefix string) int {
	s.t.Helper()
	info, err := s.Info(context.Background(), section).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, found := strings.Cut(info, "\n"+prefix)
	if !found {
		return 0
	}
	n, err := strconv.Atoi(rest[:strings.IndexAny(rest, ",\r")])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Calls is how many RL.ACQUIREX the server has carried out.
func (s *Server) Calls() int { return s.Stat("commandstats", "cmdstat_rl.acquirex:calls=") }

// Cluster starts three primaries that share the slots.
func Cluster(t testing.TB) []*Server {
	t.Helper()
	var nodes []*Server
	create := []string{"--cluster", "create"}
	for range 3 {
		n := Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no")
		nodes = append(nodes, n)
		create = append(create, n.Addr)
	}
	out, err := exec.Command("redis-cli", append(create, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	Eventually(t, 10*time.Second, "a cluster that agrees", func() bool {
		for _, n := range nodes {
			info, err := n.ClusterInfo(context.Background()).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return false
			}
		}
		return true
	})
	return nodes
}

// Eventually polls.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within %v", what, within)
		}
	}
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// module is the module's path, by default in this repository. Tests run in their package's folder.
func module(t testing.TB) string {
	t.Helper()
	path := os.Getenv("RL_TEST_MODULE")
	if path == "" {
		dir, err := os.Getwd()
		for err == nil && dir != "/" {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		path = filepath.Join(dir, "../../target/release/libredis_rl.so")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no module, run `make build` or set RL_TEST_MODULE: %v", err)
	}
	return path
}

// freePort is outside the range from which the system takes ports for outgoing connections, one of
// which could otherwise take it while a server restarts. The port of the cluster bus is 10000
// higher.
func freePort(t testing.TB) string {
	for range 100 {
		port := 10_000 + rand.IntN(12_000)
		if free(port) && free(port+10_000) {
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no free port")
	return ""
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}
