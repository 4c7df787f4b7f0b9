class Haft < Formula
  desc "Tools for language-model agents: call them, judge them, run a model with them"
  homepage "@RELEASES@"
@ALONE@
  url "@RELEASES@/@ARCHIVE@"
@END@
  version "@VERSION@"
@ALONE@
  sha256 "@SHA256@"
@END@
  license any_of: ["MIT", "Apache-2.0"]

@ALONE@
  # The only system it is built for; elsewhere brew says so instead of missing an address.
  depends_on arch: :@ARCH@
  depends_on :linux
@END@
@SEVERAL@
  # Built for Linux; elsewhere brew says so. The addresses are there all the same: without one
  # it would only say that it misses it.
  depends_on :linux

@EACH@
  on_@PROCESSOR@ do
    url "@RELEASES@/@ARCHIVE@"
    sha256 "@SHA256@"
  end
@NEXT@
@END@

  def install
    bin.install "haft"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/haft"
    zsh_completion.install "completions/_haft"
    fish_completion.install "completions/haft.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/haft --version")
    system bin/"haft", "demo", "--fast"
  end
end
