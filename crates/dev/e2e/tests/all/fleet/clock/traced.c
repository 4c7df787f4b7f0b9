/* traced FILE PROGRAM ARGS: runs a program that asks the kernel for the time by itself,
   and moves its wall clock by as many seconds as the file says. The page that answers
   without the kernel is hidden from it, and its questions are answered here. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long moved_by(const char *path) {
    FILE *file = fopen(path, "r");
    long by = 0;
    if (file) {
        if (fscanf(file, "%ld", &by) != 1) by = 0;
        fclose(file);
    }
    return by;
}

static int run(char **line) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    execv(line[0], line);
    return 127;
}

static void hide_clock_page(pid_t pid) {
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    long *at = (long *)regs.rsp + 1;
    for (int lists = 0; lists < 2; at++)
        if (ptrace(PTRACE_PEEKDATA, pid, at, 0) == 0) lists++;
    for (long type; (type = ptrace(PTRACE_PEEKDATA, pid, at, 0)) != AT_NULL; at += 2)
        if (type == AT_SYSINFO_EHDR) ptrace(PTRACE_POKEDATA, pid, at, AT_IGNORE);
}

static void answer(pid_t pid, const char *path) {
    struct user_regs_struct regs;
    struct timespec now;
    ptrace(PTRACE_GETREGS, pid, 0, &regs);
    if (regs.rdi != CLOCK_REALTIME && regs.rdi != CLOCK_REALTIME_COARSE) return;
    clock_gettime(CLOCK_REALTIME, &now);
    ptrace(PTRACE_POKEDATA, pid, (long *)regs.rsi, now.tv_sec + moved_by(path));
    ptrace(PTRACE_POKEDATA, pid, (long *)regs.rsi + 1, now.tv_nsec);
    regs.orig_rax = -1;
    regs.rax = 0;
    ptrace(PTRACE_SETREGS, pid, 0, &regs);
}

int main(int count, char **args) {
    if (count < 3) return 2;
    pid_t first = fork();
    if (first == 0) return run(args + 2);
    int status, is_set = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == first) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            continue;
        }
        int event = status >> 16, signal = WSTOPSIG(status);
        if (!is_set) {
            is_set = 1;
            ptrace(PTRACE_SETOPTIONS, pid, 0,
                   PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                       PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC);
        }
        if (event == PTRACE_EVENT_EXEC) hide_clock_page(pid);
        if (event == PTRACE_EVENT_SECCOMP) answer(pid, args[1]);
        ptrace(PTRACE_CONT, pid, 0, event || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
    }
    return 0;
}
