"""Starts the two ranks and waits for them.  python launch.py [--resume 40]"""
import subprocess
import sys

RANKS = 2


def main():
    workers = [
        subprocess.Popen([sys.executable, "worker.py", "--rank", str(rank), *sys.argv[1:]])
        for rank in range(RANKS)
    ]
    codes = [worker.wait() for worker in workers]
    print(f"ranks ended with {codes}", flush=True)
    sys.exit(max(abs(code) for code in codes))


if __name__ == "__main__":
    main()
