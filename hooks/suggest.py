#!/usr/bin/env python3
"""A hook for coding agents: reads a JSON object and prints at most one. Python 3.8, no packages.

At a prompt about a training run or a rented GPU, and about trouble, money, a plan or an end: one
line that names the tool for it. After a tool: a result that shows a training failure, or
numbers that no healthy run has, gets such a line. Before a tool: a command that deletes or ends a
box or a disk gets the release check, and the user decides. The same line comes once in a session.
Anything else, unreadable input included, gets silence and exit 0, because a hook that fails gets in
the way of the work. Prompts, results and commands are data: searched, never repeated.

Limits: it searches the first and the last 50,000 characters of a result, 4,000 of a prompt, and
the last two megabytes of the session for a line of its own. Texts of entries, which signatures.txt
beside it holds, are sought in the first and the last 25,000 characters. It doesn't see a deletion
in a program, an alias or a console.
"""

import json
import math
import os
import re
import sys

MOST_INPUT = 64 << 20  # bytes of an event
EACH_END = 50_000  # characters at each end of a result
EACH_END_OF_PROMPT = 4_000
MOST_COMMAND = 20_000  # characters of a command
MOST_SESSION = 2 << 20  # bytes at the end of a session's transcript
LOGS = (".log", ".out", ".err", ".txt", ".jsonl")

# (what the result shows, its pattern), each below a line that it is for. The first match counts.
# Patterns are compiled when an event needs them, so that the others don't wait.
FAILURES = (
    # torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
    # torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 1
    (
        "ChildFailedError: one rank of a distributed run failed",
        r"\bChildFailedError\b|\bfailed \(exitcode: -?[1-9]",
    ),
    # NVRM: Xid (PCI:0000:5e:00): 79, pid=1234, GPU has fallen off the bus.
    (
        "an Xid: the driver reports a GPU fault",
        r"\bXid\s*\(PCI|\bNVRM:\s*Xid\b|\bXid:?\s+(?:error\s+)?\d{1,3}\b",
    ),
    # [rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout
    # A program that sets timeout=... doesn't count.
    (
        "an NCCL time-out",
        (
            r"(?i)Watchdog caught collective operation timeout|\bTimeout at NCCL work\b"
            r"|\bNCCL\b(?! INFO)[^\n]{0,200}\b(?:timeout\b(?!\s*=)|timed out\b|time-out\b)"
        ),
    ),
    # torch.distributed.DistNetworkError: The client socket has timed out after 600000ms
    (
        "ranks that don't reach each other",
        r"\bDist(?:Network|Store|Backend)Error\b|\[c10d\][^\n]{0,200}\b(?:failed to|timed out)\b",
    ),
    # torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
    (
        "out of memory on the GPU",
        (
            r"\b(?:CUDA(?: error:)?|HIP(?: error:)?|MPS backend|XPU) out of memory\b"
            r"|(?<!java\.lang\.)\bOutOfMemoryError\b|\bCUDA_ERROR_OUT_OF_MEMORY\b"
        ),
    ),
    # Out of memory: Killed process 4242 (python) total-vm:...
    (
        "out of memory on the host",
        (
            r"\b[Oo]ut of memory: Kill(?:ed)? process|\boom[-_]kill|\bOOMKilled\b"
            r"|DefaultCPUAllocator: (?:can't|not enough)"
            r"|\bunable to mmap\b[^\n]{0,80}Cannot allocate memory"
        ),
    ),
    # run.sh: line 3: 4242 Killed                  python train.py
    (
        "a process was killed",
        (
            r"(?m)^(?:\S{1,200}: line \d+:\s+\d+ Killed\b|\[\d+\][\s+-]{1,8}(?:\d+ )?[Kk]illed\b"
            r"|zsh: killed\b|Killed[ \t\r]*$)"
            r"|\bkilled by signal: Killed\b|\bterminated by signal 9\b"
            r"|\b(?:exit code|exitcode|exited with|status)\s*:?\s*(?:137|-9)\b|\bSIGKILL\b"
        ),
    ),
    # Memory access fault by GPU node-4 (Agent handle: 0x152e220) on address 0x7f1c80a00000.
    (
        "a crash below Python",
        (
            r"(?i)\bmemory access fault by gpu\b|\bsegmentation fault\b|\bbus error\b"
            r"|\bcore dumped\b|\bSIG(?:SEGV|BUS|ABRT|FPE)\b|\bterminate called after throwing\b"
        ),
    ),
    # An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed.
    # Falling back to cpu.
    ("a GPU that isn't used", r"(?i)\bfalling back to (?:the )?cpu\b|\bno gpu/tpu found\b"),
    # OSError: [Errno 28] No space left on device
    (
        "a full disk",
        r"\bNo space left on device\b|\bENOSPC\b|\bDisk quota exceeded\b|\bfile write failed\b",
    ),
)
# What any program may show: a failure of training only where the text tells of training.
OF_ANY_PROGRAM = (
    "out of memory on the GPU",
    "out of memory on the host",
    "a process was killed",
    "a crash below Python",
    "a GPU that isn't used",
    "a full disk",
)
KNOWN = "a message that an entry names"
SIGNATURES = "signatures.txt"  # beside this file; made from the entries by rgt dev docs --write
QUOTES = '`"\u2018\u2019\u201c\u201d\u00b4'  # what an apostrophe stands for in a signature
TRACEBACK = "Traceback (most recent call last):"
# The exception at the end of a traceback, with a mark of torchrun or without:
# [rank1]: torch.distributed.DistBackendError: NCCL error in: ...
LAST_LINE = (
    r"(?m)^(?:\[?(?:rank|default)?\d{0,5}\]?:?[ \t]{0,8})"
    r"((?:[A-Za-z_]\w{0,80}\.){0,9}[A-Z]\w{0,80})(?::|$)"
)
# The traceback itself says what to correct, so a look-up would only be in the way.
EXPLAINED = frozenset(
    [
        "SyntaxError",
        "IndentationError",
        "TabError",
        "NameError",
        "ModuleNotFoundError",
        "ImportError",
        "FileNotFoundError",
        "KeyboardInterrupt",
        "SystemExit",
        "PermissionError",
    ]
)
# A traceback or a kill of any other program isn't about training.
TRAINING = (
    r"(?i)torch|\bnccl|(?<![a-z])(?:training|trainer|train_\w|train/)"
    r"|(?<![a-z])(?:pre)?train\w{0,40}\.(?:py|sh|sbatch)\b|fine-?tun|\bepochs?\b|\bloss\b"
    r"|\blora\b|deepspeed|/accelerate/|\baccelerate launch|\btransformers\b|\blightning\b"
    r"|dataloader|tried to allocate"
)
# What stands beside a message of a library or a driver that training needs.
NEAR_TRAINING = (
    r"(?i)cuda|\bgpus?\b|nvidia|nvml|tensor|hugging_?face|\bhf_|diffusers|\bvllm|#SBATCH|\bsbatch\b"
    r"|\bsrun\b|tokenizer|/datasets/|\bllama|\bqwen"
)
# After a look-up the suggestion comes too late: rgt's own answers quote error texts.
OURS = r"\bremote[-_]gpu[-_]trainer\b|\blookup_symptom\b|(?:^|\s)rgt\s"

CONTINUED = re.compile(r"\\\r?\n")  # a line that goes on in the next one
# Where a command's name may begin: cd x && aws ..., $(aws ...), /usr/bin/aws ...
START = r"(?:^|[\s;&|(`\"'/])"
# Each below a command that it is for. The gaps are bounded, so that no command takes long.
DELETIONS = (
    # vastai destroy instance 4242
    r"(?:vastai|vast\.py)\s(?:[^|;&\n]{0,200}\s)?(?:destroy|delete)\s+(?:instances?|volume)",
    # runpodctl remove pod abc123
    r"runpodctl\s+(?:(?:remove|delete)\s+(?:pods?|network-volume)"
    r"|(?:pods?|network-volume)\s+(?:remove|delete|rm|terminate))",
    # aws ec2 terminate-instances --instance-ids i-0abc
    r"aws\s[^|;&\n]{0,400}\b(?:terminate-instances|delete-volume|delete-auto-scaling-group"
    r"|cancel-spot-fleet-requests[^|;&\n]{0,400}--terminate)",
    # gcloud compute instances delete box --zone us-central1-a
    r"gcloud\s[^|;&\n]{0,400}\b(?:instances|disks|tpu-vm|instance-groups\s+managed)\s+delete\b",
    # gcloud compute instances stop box --discard-local-ssd=true
    r"gcloud\s[^|;&\n]{0,400}\bstop\b[^|;&\n]{0,400}--discard-local-ssd\b(?!=false)",
    # az vm delete --name box --yes
    r"az\s+(?:-{1,2}[\w-]+(?:[=\s]\S+)?\s+){0,4}(?:vm|disk|vmss|group)\s+delete\b",
    # nebius compute instance delete --id computeinstance-0abc
    r"nebius\s[^|;&\n]{0,400}\b(?:instance|disk|filesystem)\s+delete\b",
    # scw instance server terminate 0abc with-block=true zone=fr-par-2
    r"scw\s[^|;&\n]{0,400}\b(?:delete|terminate)\b",
    # scw instance server stop 0abc zone=fr-par-2
    r"scw\s+instance\s+server\s+stop\b",
    # pspace machine delete ps0abc
    r"(?:pspace|paperspace)\s[^|;&\n]{0,400}\b(?:delete|destroy)\b",
    # modal app stop my-training
    r"modal\s+(?:(?:app|container)\s+stop|volume\s+(?:delete|rm))\b",
    # featurize instance release 0abc
    r"featurize\s+instance\s+release\b",
    # matncli node cancel 4242
    r"matncli\s+node\s+cancel\b",
    # colab stop
    r"colab\s+stop\b",
    # kaggle kernels delete me/train
    r"kaggle\s+(?:kernels|datasets)\s+delete\b",
    # sky down my-cluster
    r"sky\s+(?:down|jobs\s+cancel|(?:storage|volumes)\s+delete)\b",
    # dstack fleet delete my-fleet
    r"dstack\s+(?:delete|fleet\s+delete|volume\s+delete)\b",
    # kubectl -n train delete job sft
    r"kubectl\s[^|;&\n]{0,400}\bdelete\s+(?:-{1,2}[\w-]+(?:[=\s]\S+)?\s+){0,4}"
    r"(?:-[fk]\b|--filename\b|\w*jobs?\b|jobsets?\b|rayclusters?\b|deploy(?:ments?)?\b"
    r"|statefulsets?\b|sts\b|pods?\b|po\b|pvc\b|persistentvolumeclaims?\b|namespaces?\b|ns\b"
    r"|nodes?\b)",
    # terraform destroy -auto-approve
    r"(?:terraform|tofu)\s[^|;&\n]{0,400}\bdestroy\b",
    # doctl compute droplet delete 4242
    r"doctl\s+compute\s+(?:droplet|volume)\s+delete\b",
    # curl -X POST https://cloud.lambdalabs.com/api/v1/instance-operations/terminate
    r"curl\s[^|;\n]{0,600}(?:instance-operations/terminate|podTerminate|/pro/release)",
    # curl -X DELETE https://rest.runpod.io/v1/pods/abc123
    r"(?:curl|wget)\s(?=[^|;\n]{0,600}(?:-X|--request|--method)[\s=]*[\"']?DELETE\b)"
    r"[^|;\n]{0,600}/(?:pods?|instances?|machines?|volumes?|networkvolumes|filesystems"
    r"|file-systems|disks?|droplets)\b",
)

# What a prompt is about. A row of these tables is a name and its words in English and Chinese; it
# counts once, however many of its words a text has. `train*` stands for all words that begin so,
# `#` for a number: #b is 7b. The number behind a name of the first table is what its row counts.
# Other fields use the words of the rows marked `shared`: a ledger has losses, a solver has nan, a
# database has checkpoints. `technical` are those that stand beside no training of people.
FIELD = """
method (2): lora, qlora, dora, rslora, peft, finetun*, fine-tun*, fine tun*, pretrain*, pre-train*,
    sft, rlhf, grpo, dpo, ppo, rloo, reward model, 微调, 精调, 预训练, 续训, 强化学习
launch (2): torchrun, deepspeed, fsdp*, ddp, nccl*, zero-#, zero2, zero3, multi-gpu, multi gpu,
    distributed training, accelerate launch, all-reduce, allreduce, gradient checkpointing,
    gradient accumulation, grad accum, 多卡, 双卡, 分布式训练, 梯度累积
curve (2): loss curve*, learning curve*, reward curve*, training loss, train loss, train_loss,
    eval loss, eval_loss, val loss, val_loss, validation loss, val accuracy, validation accuracy,
    val acc, val_acc, eval accuracy, eval_accuracy, grad norm, grad_norm, gradient norm, perplexity,
    reward_std, total_loss, actor loss, critic loss, nan loss, loss nan, loss is nan, loss diverg*,
    loss scale, cross entropy, 训练曲线, loss 曲线
epoch (2): epoch, epochs, 轮训练
resume (2): resume_from_checkpoint, checkpoint-#, resume training, resumed training,
    resuming training
program (2): train.py, train.sh, trainer.py, trainer.train, train_*, finetune.py, sft.py,
    training run*, training job*, training script*, training loop, model training, training process,
    training starts, 训练脚本, 训练任务, 模型训练, 训练过程, 训练到, 训练时, 训练中, 个训练, 训练跑,
    开始训练, 训练卡
train in Chinese (1): 训练
rented (2): vast.ai, vastai, on vast, vast box, vast instance*, vast machine*, runpod*, autodl,
    lambda labs, lambdalabs, lambda cloud, lambda instance*, lambda box, on lambda, paperspace,
    coreweave, jarvislabs, gpushare, lanrui, tensordock, datacrunch, nebius, scaleway, featurize,
    matpool, 恒源云, 矩池云, 智星云, 揽睿, 算力云, 租卡, 租的卡, 显卡服务器
files (1): ckpt*, safetensors, state_dict, optimizer.pt, 权重
setting (1): learning rate, learning_rate, lr, hyperparam*, hyper-param*, optimizer, optimiser,
    adam, adamw, sgd, bf16, fp16, fp8, 4bit, 4-bit, mixed precision, batch_size, minibatch*,
    bfloat16, float16, dropout, relu, softmax, logits, backprop*, ablation*, 学习率, 梯度, 优化器,
    超参
library (1): pytorch, torch*, transformers, huggingface, hugging face, unsloth, axolotl, trl,
    llama-factory, llamafactory, ms-swift, mmdet*, diffusers, dataloader*, data loader*,
    num_workers, tokenizer*, flash-attn, flash-attention, xformers, jax, flax,
    sentence-transformers, timm, ultralytics, wandb, tensorboard, fairseq, detectron*, horovod,
    bitsandbytes, cudnn, cifar*, imagenet, neural, seq2seq, rl
model (1): #b, llama*, qwen*, mistral*, mixtral*, gemma*, deepseek*, bert*, deberta*, roberta*,
    resnet*, vit, yolo*, unet, u-net, whisper, diffusion, sdxl, llm, llms, vlm, embedding,
    embeddings, segmentation, base model
measure (1): eval, evals, val, f1, auc, miou, iou, bleu, rouge, overfit*, test set, val set,
    validation set, train set, training images, training data, 准确率, 验证集, 测试集, 过拟合
hosted (1): colab, kaggle, sagemaker, skypilot
speed (1): s/it, it/s, tok/s, tokens/s, tokens/sec, samples/s, samples/sec, imgs/s, it/sec, mfu
many (2, shared, technical): multi-node, multi node, 多机
datacentre card (2, shared, technical): a100*, h100*, h200*, h800*, a800*, b200*, b300*, gb200*,
    l40*, v100*, a6000*, a40, mi300*, mi250*
resumed (2, shared, technical): resume the run, resumed the run, resumed run, resuming the run,
    the resume, after resuming, 断点
trained (2, shared): the training, my training, our training, this training, train on
loss (1, shared): loss, losses, reward, rewards, 损失, 奖励
train (1, shared): train, training, trainings, trained, trainer, retrain*
weights (1, shared, technical): checkpoint*, weights, adapter*, 检查点
knob (1, shared, technical): batch size, batchsize, scheduler, warmup, gradient, gradients,
    max_steps, 8bit, 8-bit, sweep, seed, 批大小
data (1, shared): dataset*, data set*, batch, batches, 数据集, 批次, 样本
workers (1, shared, technical): workers
symptom (1, shared, technical): oom*, nan, nans, inf, cuda error*, diverg*, converg*, overfit*, xid,
    爆显存, 不收敛, 过拟合
kind of model (1, shared, technical): transformer, classifier, detector, encoder, 模型
score (1, shared): evaluation, validation, accuracy, acc, map, dice, metrics, completions, converg*,
    精度, 收敛, 评估, 指标
card (1, shared, technical): gpu, gpus, cards, vram, cuda, 3080*, 3090*, 4080*, 4090*, 5080*, 5090*,
    2080ti, rtx, nvidia*, nvidia-smi, amd gpu*, radeon, rocm, 显卡, 显存, 张卡, 块卡, 几张, 卡训
queue (1, shared, technical): slurm, sbatch, spot, preempt*, 抢占, 竞价
box (1, shared, technical): box, boxes, instance, instances, pod, pods, node, nodes, machine,
    machines, server, servers, vm, cluster, rent, rented, renting, rental, droplet, 机器, 实例,
    服务器, 租, 那台, 这台, 节点, 集群
pace (1, shared, technical): s/step, ms/step, throughput, util, utilization, utilisation, 利用率,
    吞吐
"""
# Words of other fields that use the same words. Each row takes two away.
FOREIGN = """
games: game, games, gameplay, gaming, unreal, ue4*, ue5*, unity, godot, directx, d3d*, dxgi*,
    vulkan, opengl, webgl, shader*, minecraft, steam, npc*, enemy, enemies, player, players, 游戏,
    玩家
graphics: blender, renders, rendering, renderer, premiere, davinci, obs, ffmpeg, nvenc, photoshop,
    wayland, miner, mining, hashrate, 渲染, 剪辑, 挖矿
web: browser, chrome, chromium, safari, firefox, playwright, selenium, react, vue, css, html,
    javascript, typescript, npm, django, flask, fastapi, rails, nginx, webpack, vite, next.js,
    frontend, checkout, login, endpoint, website, webshop, landing page, 网页, 前端,
    浏览器, 接口, 页面, 小程序
people: staff, employee*, onboarding, course*, curriculum, trainee*, trainers, hr, workshop*,
    training plan*, training program*, training session*, marathon, gym, workout*, runner*,
    classroom, certification*, coach*, 员工, 新人, 培训, 课程, 健身, 马拉松, 跑步
chain: blockchain*, ethereum, staking, validator*, masternode*, wallet*, mainnet, 区块链
science: cfd, openfoam, navier*, fluent, ansys, comsol, abaqus, finite element*, gromacs, lammps,
    openmm, namd, vasp, molecular dynamics, weather model*, climate model*, ocean model*, 流体,
    有限元, 分子动力学
railway: railway*, rail, timetable*, departure*, trains, locomotive*, train station*, 列车, 火车,
    地铁, 时刻表, 高铁
data stores: spark, pyspark, hadoop, pandas, dataframe*, airflow, kafka, sql, postgres*, mysql,
    mongo*, redis, elasticsearch, snowflake, dbt, etl, scraper*, scraping, crawler*, database*,
    backup*, 数据库, 爬虫, 报表
java: java*, jvm, maven, mvn, gradle, tomcat, kotlin, android, ios, xcode, golang, rust, cargo,
    安卓
talk: slide, slides, readme*, changelog, docs, docstring*, documentation, typo*, blog*, essay,
    glossary, translat*, poem, presentation, explain what, explain how, explain the, what is a,
    what are, what's the difference, difference between, how does, define, tutorial, interview*,
    翻译, 幻灯片, 文档, 什么是, 解释一下, 介绍一下, 区别, 面试, 教程
code: refactor*, rename, renaming, lint*, mypy, type hints, unit test*, pytest, pull request*,
    code review, merge conflict*, rebase, imports, test suite, 重构, 单元测试, 类型注解, 重命名
cuda: cuda kernel*, reduction kernel, kernel.cu, nvcc, thread block*, warp, warps,
    compute-sanitizer, cuda-memcheck, __global__, ptx, 核函数
other losses: data loss, packet loss, weight loss, hearing loss, profit and loss, stop loss,
    stop-loss, 丢包
image tools: comfyui*, a1111, webui, web ui, ollama, llama.cpp, gguf, controlnet
"""
# What is wanted, said or asked.
MATTER = """
money: cost, costs, costing, bill, bills, billed, billing, charge, charged, charges, charging,
    price, prices, pricing, pay, paying, paid, money, expensive, budget, credits, invoice, refund,
    per hour, 扣费, 计费, 收费, 费用, 多少钱, 花费, 余额, 欠费, 账单, 扣钱, 收钱
end: destroy, terminate, delete, release, shut, stop, kill, pause, remove, close, tear, teardown,
    get rid, turn off, power off, switch off, give back, hand back, return, 关机, 关掉, 关了,
    释放, 销毁, 停机, 停掉, 停了, 删掉, 删了, 退租, 注销
which: which, what, how many, how much, how big
hire: rent, renting, hire, provision, before i rent, should i rent, worth renting, 租, 能不能跑,
    能跑, 跑得动, 够不够, 够用, 多少显存, 几张卡, 选什么卡, 哪张卡, 什么卡, 什么显卡, 哪款
fit: fit, fits, fitting, enough, 放得下, 装得下
room: vram, memory, #gb, #g, gpu, gpus, card, cards
away: overnight, over night, weekend, to bed, to sleep, asleep, unattended, background, nohup,
    tmux, detach, detached, until morning, by itself, on its own, auto-resume, autoresume,
    requeue, ping me, notify me, let it run, keep it running, keeps running, while i'm away,
    while i'm out, i'm off, 过夜, 通宵, 挂着, 挂后台, 挂机, 一晚, 后台, 睡觉, 睡了, 周末, 明早,
    今晚, 明天再, 自动恢复, 自动重启
begin: start, launch, kick, kick off, submit, queue, begin, rerun, restart, relaunch, 开跑,
    跑起来, 启动训练, 开始训练, 启动
a run: run, runs, training, job, jobs, sweep, sft, finetun*, fine-tun*, grpo, pretrain*, train.py,
    torchrun
more: on # gpus, on # cards, on # nodes, across # gpus, to # gpus, on two gpus, on four gpus,
    on eight gpus, on multiple gpus, on several gpus, on all gpus, 改成多卡, 上多卡, 换成多卡,
    多卡跑
trouble: gone, disappear*, vanish*, unavailable, unreachable, refused, denied, incorrect,
    unstable, overflow, evicted, disconnected, unable, no longer, noisy, blurry, bad, ignored,
    ignores, negative, won't, fail, fails, failed, failing, failure*, crash*, error, errors,
    exception*, traceback, hang, hangs, hung, hanging, stuck, freez*, froze, frozen, stall*,
    deadlock*, dies, died, dead, killed, oom*, out of memory, runs out, ran out, slow, slower,
    slowly, slows, slowdown, drops, dropped, falls, fell, nan, nans, inf, diverg*, explod*, spike,
    spikes, spiked, spiking, plateau*, wrong, weird, strange*, odd, suspicious*, unexpected*,
    same as the base, exactly like, identical, garbage, gibberish, nonsense, worse, lost, leak,
    leaks, leaking, corrupt*, truncat*, timed out, timeout, time-out, mismatch*, too good,
    at chance, flat, jumps, jumped, idle, starv*, broken, goes up, went up, going up, rises,
    rising, only one, isn't learning, not learning, regress*, degrad*, stopped, stops,
    doesn't match, overfit*, collaps*, twice as long, takes forever, all the same, are the same,
    same output*, same sentence, no boxes, 报错, 错误, 失败, 崩, 卡住, 卡死, 卡在, 不动, 挂了,
    挂掉, 中断, 被杀, 爆显存, 显存不足, 溢出, 不收敛, 不下降, 不降, 发散, 变慢, 太慢, 很慢,
    越来越慢, 掉速, 异常, 不对, 对不上, 怎么回事, 没用, 没反应, 泄漏, 丢了, 没变化, 退出, 超时,
    降不下, 上不去, 不一致, 突然, 变差, 乱码, 降到, 下不去, 爆了, 无法, 没了, 不见, 驱逐, 降频,
    拖慢, 出错, 失效, 连不上, 找不到, 消失, 不起来
not: not, no, never, doesn't, don't, didn't, isn't, won't, can't, cannot, couldn't, aren't,
    wasn't, barely, hardly, stopped
works: learn, learns, learning, converge, converges, converging, improve, improves, improving,
    improvement, decrease, decreases, decreasing, progress, work, works, working, match, matches,
    move, moves, moving, change, changes, changing, load, loads, loaded, save, saved, saves,
    resume, resumes, start, starts, finish, finishes, use, used, utilised, utilized, reproduce,
    go, help, down
doubt: only, instead, always, again, still, different, differs, full, poor, not, no, why,
    problem*, issue, issues, ok, okay, normal, expected, healthy, good, perfect, any idea*,
    what happened, what's going, shall i, should i, do i, did i, supposed, is it, is this,
    is that, never, missing, empty, zero, random, high, low, small, better, compare*, advice,
    go on, let it, publish, ship, results table, look at, check, bug, 正常, 一直, 越来越, 变成,
    为什么, 为啥, 问题, 帮我看, 怎么办, 要不要, 该不该, 看下, 看看, 一样, 是不是, 对吗
own: my, our, mine, i, i'm, i've, this run, the run, these, it, 我, 这, 咱
"""
BOXES = ("rented", "box", "card", "datacentre card")

# Commands that only quote: what they print was written, it didn't happen here.
PROGRAM = r"(?:\S{0,200}/)?"
QUOTING = PROGRAM + r"(?:git|gh|glab|man|tldr|ls|find|fd|tree|diff|wc|echo|printf|history)(?:\s|$)"
SEARCHING = PROGRAM + r"(?:grep|egrep|zgrep|rg|ag|ack)(?:\s|$)"
READING = PROGRAM + r"(?:cat|bat|head|tail|less|more|nl|sed|awk)(?:\s|$)"
A_LOG = r"(?i)\.(?:log|out|err|txt|jsonl|csv|tsv)\b|\blogs?\b|trainer_state|\bdmesg\b|nohup|slurm-"
A_SOURCE = (
    r"(?i)\.(?:md|rst|py|pyi|ipynb|ya?ml|toml|cfg|ini|sh|c|cc|cu|cuh|cpp|h|hpp|rs|go|java|js|ts"
    r"|tsx|html|css|tex|patch|diff|adoc)(?![\w.])"
)

# A value and its name in a record of a run, however it is written: loss 2.3, 'loss': 2.3, loss=nan
VALUE = (
    r"(?<![\w/@.%])([A-Za-z_][\w/@.%]{0,60})[\"')\]]{0,2}[ \t]{0,3}[:=]?[ \t]{0,3}[\[(]?[\"']?"
    r"([-+]?(?:\d{1,15}(?:\.\d{0,20})?(?:e[-+]?\d{1,4})?|nan|inf(?:inity)?)\b)"
)
# The loss or the gradient as a whole; a part of it, such as l1_loss, may well be zero.
WHOLE = r"(?:(?:train|training|total|eval|val|avg|mean|step|epoch)_)*(?:loss|grad_?norm|gnorm)"
WORD = r"[a-z]+"
MEASURE = r"(?:^|_)(?:acc|accuracy|dice|iou|miou|map|f1|auc|bleu)$"
SPEED = r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?) ?(?:s/it|ms/step|s/step|s/iter|sec/it|s/batch|ms/it)\b"
# epoch 1 step 1   Non-finite gradients (384/384); skipping optimizer step
SKIPPED = r"(?i)\b(?:non-?finite|nan|inf|invalid)[^\n]{0,10} grad"
# |  0%   41C  P0  118W / 700W |  68211MiB / 81559MiB |      0%      Default |
CARD_ROW = r"(?<!\d)(\d{1,7}) ?Mi?B ?/ ?\d{1,7} ?Mi?B[ |]{1,20}(\d{1,3}) ?%"
QUERY = r"--query-gpu[= ]([\w.,]+)"
# overlay         300G  271G   30G  91% /
SIZE = r"[ \t]{1,80}(\d{1,12}(?:\.\d{1,3})?)([KMGTP]?)i?"
DISK_ROW = r"(?m)^\S{1,200}" + SIZE * 3 + r"[ \t]{1,20}(\d{1,3})%[ \t]{1,20}/"
# 42G     /workspace/out/checkpoint-500
SAVED = (
    r"(?mi)^[^\n]{0,60}?\b(\d{1,6}(?:\.\d{1,3})?)([KMGT])i?B?\b"
    r"[^\n]{0,120}?(?:checkpoint|ckpt|\.pth?\b|\.safetensors\b|step|epoch)"
)
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
# Lists of boxes that are rented for their GPUs, and lists of clouds that have others too.
LISTS = r"(?:vastai\s+show|runpodctl\s+(?:get|pod\s+list)|sky\s+status|dstack\s+ps)\b"
LISTS_OF_CLOUDS = (
    r"(?:aws\s+ec2\s+describe-instances|gcloud\s+compute\s+instances\s+list|az\s+vm\s+list"
    r"|nebius\s+compute\s+instance\s+list)\b"
)
WITH_GPU = r"(?i)\b(?:p[2-6]|g[4-6])\w{0,3}\.\d{0,2}x?large|\ba[23]-\w|nvidia|Standard_N[CDV]|gpu"
STOPPED = r"(?i)\b(?:exited|stopped|paused|inactive|idle|terminated|deallocated)\b"
UNUSED = r"[ \t|]0(?:\.0)?[ \t|%]"
RENTS = (
    r"(?:vastai\s+(?:search\s+offers|create\s+instance)|runpodctl\s+(?:create\s+pods?|pod\s+create)"
    r"|sky\s+launch)\b"
)
DETACHES = r"\bnohup\b|\bsetsid\b|\btmux\s+new|\bscreen\s+-\w{0,5}d|\bsbatch\b|&\s{0,5}$|\bdisown\b"
TRAINS = (
    r"(?i)\b(?:torchrun|deepspeed|accelerate\s+launch)\b"
    r"|(?:train|finetune|fine_tune|sft|grpo|dpo)\w{0,40}\.(?:py|sh|sbatch|slurm)\b"
)

LOOK_UP = (
    "This result shows {what}. Before you edit code or start again, call lookup_symptom with the "
    "error text or the log's path (or run: remote-gpu-trainer lookup --log FILE). "
    "It may find no match."
)
RELEASE = (
    "This command deletes or ends a box, its disk or its data. Check first that the run has ended, "
    "that the results are copied off the box and one of them was opened in its new place, that "
    "the logs are kept, and that the user agrees. remote-gpu-trainer release BOX --profile NAME "
    "copies, compares and loads the results, and shows what is still billed."
)
# For what a result shows without an error.
IDLE = (
    "This result shows a GPU that holds memory and computes nothing. Call gpu_health, and before "
    "you end a hang: remote-gpu-trainer snapshot BOX names the rank that differs. "
    "Then lookup_symptom with what is seen and the log's path."
)
DISK = (
    "This result shows a disk without room for what a run saves next. Delete nothing before the "
    "user agrees; call lookup_symptom with the log's path. remote-gpu-trainer render reckons the "
    "disk of a job and keeps only the newest checkpoints, profile NAME says what a disk costs."
)
BILLED = (
    "This result shows a rented box that is stopped or computes nothing, and may still be billed. "
    "Tell the user. remote-gpu-trainer profile NAME says what stops the bill and what that "
    "deletes, release BOX brings the results home first."
)
RENTED = (
    "This command is about renting a GPU. remote-gpu-trainer fit tells whether the model fits it, "
    "profile NAME what is billed and what survives a stop; after the first login call gpu_health "
    "before anything is installed."
)
DETACHED = (
    "This command starts a training run that nobody watches. A job rendered by render_run_script "
    "(or remote-gpu-trainer render job.yaml --profile NAME) has a deadline, saves, resumes and "
    "notifies; remote-gpu-trainer status BOX --wait returns when its state changes."
)
# For a prompt, by its matter.
PROMPTS = {
    "money": (
        "This prompt is about what a box costs. Call check_staleness with the platform as scope "
        "before you tell a price; remote-gpu-trainer profile NAME says what is billed, what stops "
        "the bill and what that deletes."
    ),
    "end": (
        "This prompt ends or stops a box. Before that, results must be copied off it and one of "
        "them opened in its new place: remote-gpu-trainer release BOX --profile NAME does that and "
        "shows what is still billed. What a stop deletes is in remote-gpu-trainer profile NAME."
    ),
    "plan": (
        "This prompt plans for a GPU. remote-gpu-trainer fit reckons whether the model fits it, "
        "remote-gpu-trainer profile --need spot --need disk=200 lists the platforms that qualify, "
        "profile NAME tells what one bills, deletes and keeps."
    ),
    "trouble": (
        "This prompt may be about a known failure of training. Before you answer or edit code, "
        "call lookup_symptom with what is seen, in a sentence, and the log's path "
        "(or run: remote-gpu-trainer lookup --log FILE). It may find no match."
    ),
    "start": (
        "This prompt starts, moves or leaves a run. For over ten minutes without anybody watching "
        "write a job with a deadline, call render_run_script and read its warnings to the user; "
        "remote-gpu-trainer rehearse and start BOX job.yaml check the code and the box first."
    ),
}


def main():
    """Answer the event on standard input; 0 whatever happens."""
    try:
        event = json.loads(sys.stdin.buffer.read(MOST_INPUT).decode("utf-8", "replace"))
        answer = answer_to(event)
    except (ValueError, RecursionError):
        return 0
    if answer:
        print(json.dumps(answer))
    return 0


def answer_to(event):
    """The answer to a hook event as an object, or None."""
    if not isinstance(event, dict):
        return None
    kind, arguments = event.get("hook_event_name"), event.get("tool_input")
    arguments = arguments if isinstance(arguments, dict) else {}
    command = arguments.get("command") if isinstance(arguments.get("command"), str) else ""
    if kind == "PreToolUse":
        return release_check(kind, command)
    if kind == "UserPromptSubmit":
        said = PROMPTS.get(matter_of(both_ends(text_of(event.get("prompt")), EACH_END_OF_PROMPT)))
    elif kind in ("PostToolUse", "PostToolUseFailure"):
        file = str(arguments.get("file_path", ""))
        if event.get("tool_name") == "Read" and not file.lower().endswith(LOGS):
            return None  # source code and documents quote errors
        result = both_ends(text_of(event.get("tool_response", event.get("error"))), EACH_END)
        said = line_for(result, command or file)
    else:
        return None
    if not said or said_before(said, event.get("transcript_path")):
        return None
    return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": said}}


def release_check(kind, command):
    """The answer that shows the release check and has the user decide; None for other commands."""
    if not deletes(command):
        return None
    return {
        "hookSpecificOutput": {
            "hookEventName": kind,
            "permissionDecision": "ask",
            "permissionDecisionReason": RELEASE,
            "additionalContext": RELEASE,
        }
    }


def said_before(line, transcript):
    """Whether the session's transcript, which the client keeps, has the line near its end."""
    if not isinstance(transcript, str) or not os.path.isfile(transcript):
        return False
    try:
        with open(transcript, "rb") as file:
            file.seek(max(0, os.path.getsize(transcript) - MOST_SESSION))
            return line.encode() in file.read(MOST_SESSION)
    except OSError:
        return False


def text_of(value, depth=0):
    """All text in a tool's result, whatever its shape, to a depth of seven."""
    if isinstance(value, str):
        return value
    if depth > 6 or not isinstance(value, (dict, list)):
        return ""
    return "\n".join(
        text_of(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)
    )


def both_ends(text, each):
    """The text, or of a long one the first and the last `each` characters."""
    return text if len(text) <= 2 * each else text[:each] + "\n" + text[-each:]


# -- commands --------------------------------------------------------------------------------------


def deletes(command):
    """Whether a shell command deletes or ends a box, a disk or a volume."""
    command = CONTINUED.sub(" ", command[:MOST_COMMAND])
    return any(re.search(START + pattern, command, re.I) for pattern in DELETIONS)


def quotes(command):
    """Whether all that a command prints was written before, as in git log or grep over source."""
    command = re.sub(r"\"[^\"\n]{0,2000}\"|'[^'\n]{0,2000}'", "QUOTED", command[:MOST_COMMAND])
    parts = [part.strip() for part in re.split(r"&&|\|\||[;\n]", command)]
    parts = [part.split("|")[0].strip() for part in parts]
    parts = [part for part in parts if part and not re.match(r"(?:cd|export|source|\.)\s", part)]
    return bool(parts) and all(map(quotes_alone, parts))


def quotes_alone(command):
    """Whether one command only quotes: a log that is read tells what happened, source doesn't."""
    if re.match(QUOTING, command):
        return True
    searches = re.match(SEARCHING, command)
    if not (searches or re.match(READING, command)) or re.search(A_LOG, command):
        return False
    return bool(searches or re.search(A_SOURCE, command))


# -- results ---------------------------------------------------------------------------------------


def line_for(text, command):
    """The line for a tool's result, or None: for a failure, for odd numbers, for a command."""
    if re.search(OURS, command) or quotes(command):
        return None
    what = failure(text, command)
    if what:
        return LOOK_UP.format(what=what)
    command = CONTINUED.sub(" ", command[:MOST_COMMAND])
    end = both_ends(text, EACH_END // 5)
    if idle_card(end, command):
        return IDLE
    what = odd_numbers(end)
    if what:
        return LOOK_UP.format(what=what)
    if no_room(end, command):
        return DISK
    if still_billed(end, command):
        return BILLED
    if re.search(START + RENTS, command):
        return RENTED
    if re.search(DETACHES, command) and re.search(TRAINS, command):
        return DETACHED
    return None


def failure(text, command):
    """What failed, in fixed words, or None."""
    if not text:
        return None
    about_training = re.search(TRAINING, text + "\n" + command)
    for name, pattern in FAILURES:
        if (about_training or name not in OF_ANY_PROGRAM) and re.search(pattern, text):
            return name
    if (about_training or re.search(NEAR_TRAINING, text + "\n" + command)) and is_known(text):
        return KNOWN
    if not about_training:
        return None
    last = text.rfind(TRACEBACK)
    raised = re.compile(LAST_LINE).search(text, last + len(TRACEBACK) if last >= 0 else 0)
    name = raised[1].rsplit(".", 1)[-1] if raised else ""
    if name in EXPLAINED or (last < 0 and not name.endswith(("Error", "Exception"))):
        return None
    return "a traceback"


def is_known(text):
    """Whether a text has a signature of an entry; sought are those whose inner words it has."""
    text = both_ends(text, EACH_END // 2).lower()
    for quote in QUOTES:
        text = text.replace(quote, "'")
    text = " ".join(text.split())
    words = set(re.findall(WORD, text))
    return any(
        signature in text
        for signature in signatures()
        if words.issuperset(re.findall(WORD, signature)[1:-1])
    )


def signatures():
    """The entries' signatures, in small letters, with single blanks; none without their file."""
    try:
        with open(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), SIGNATURES), "rb"
        ) as file:
            lines = file.read(MOST_SESSION).decode("utf-8", "replace").split("\n")[:-1]
            return [line.strip("`") for line in lines]
    except OSError:
        return []


def odd_numbers(text):
    """What the numbers of a run show that no healthy run has, in fixed words, or None."""
    series = records(text)
    for name, values in series.items():
        what = odd_series(name, values)
        if what:
            return what
    if at_chance(series):
        return "a loss and an accuracy of plain guessing"
    if waits_for_data(series):
        return "steps that mostly wait for data"
    if len(re.findall(SKIPPED, text)) > 3:
        return "gradients that aren't finite, step after step"
    speeds = [float(value) for value in re.findall(SPEED, text)]
    before = sorted(speeds[:-2])
    if len(before) > 1 and min(speeds[-2:]) > 3 * before[len(before) // 2] > 0:
        return "steps that take several times as long as before"
    return None


def odd_series(name, values):
    """What one number of a run shows over time, in fixed words, or None."""
    last, whole = values[-2:], re.fullmatch(WHOLE, name)
    twice = len(values) > 1
    if name.endswith("loss") and not all(map(math.isfinite, values[-20:])):
        return "a loss that is nan or infinite"
    if twice and name.endswith("loss") and values[-1] > max(10, 50 * max(values[:-1])):
        return "a loss that jumps to many times what it was"
    if twice and whole and all(map(math.isnan, last)):
        return "a gradient norm that is nan"
    if twice and "reward" in name and "std" in name and not any(last):
        return "rewards without any spread"
    if twice and whole and not any(last):
        return "a loss or a gradient of exactly zero"
    if len(values) > 2 and re.search(MEASURE, name) and not any(values):
        return "a measure that stays at zero"
    if len(values) > 3 and whole and len(set(values[-4:])) == 1:
        return "a loss that doesn't move"
    return None


def waits_for_data(series):
    """Whether loading takes more than half of the steps' time, where a run tells both."""
    data, whole = series.get("data_time", series.get("data", ())), series.get("time", ())
    return (
        len(data) == len(whole) > 2 and all(map(math.isfinite, data)) and sum(data) > sum(whole) / 2
    )


def records(text):
    """{name: its values in order} of the lines that look like a run's record: two values or more.

    A name is the last part of what stands there, in small letters: rewards/mean is mean, except
    for rewards.
    """
    series, value = {}, re.compile(VALUE, re.I)
    for line in text.split("\n"):
        found = value.findall(line[:2000])
        if len(found) < 2:
            continue
        for name, number in found:
            name = name.lower()
            if "reward" not in name:
                name = name.rsplit("/", 1)[-1]
            series.setdefault(name, []).append(float(number))
    return series


def at_chance(series):
    """Whether the last loss is ln k and the last accuracy 1/k: what guessing among k classes gives.

    Up to 30 classes: of more, some logarithm is always near.
    """
    losses = [values[-1] for name, values in series.items() if name.endswith("loss")]
    shares = [values[-1] for name, values in series.items() if re.search(r"(?:^|_)acc\w*$", name)]
    for loss in losses:
        classes = round(math.exp(loss)) if 0.6 < loss < 3.4 else 0
        guessed = classes and abs(loss - math.log(classes)) < 0.003 * loss
        if guessed and any(abs(share * classes - 1) < 0.1 for share in shares):
            return True
    return False


def idle_card(text, command):
    """Whether a listing of GPUs has one that holds over a gigabyte and computes nothing."""
    rows = [(int(held), int(used)) for held, used in re.findall(CARD_ROW, text)]
    asked = re.search(QUERY, command)
    if asked:
        columns = asked[1].split(",")
        for line in text.split("\n"):
            cells = [re.match(r"\s{0,9}(\d{1,7})", cell) for cell in line.split(",")]
            row = {name: int(cell[1]) for name, cell in zip(columns, cells) if cell}
            if len(cells) == len(columns) and {"memory.used", "utilization.gpu"} <= set(row):
                rows.append((row["memory.used"], row["utilization.gpu"]))
    return any(held > 1000 and used == 0 for held, used in rows)


def no_room(text, command):
    """Whether a listing of disks, beside signs of training, has one too full for the next save."""
    if not re.search(TRAINING + r"|checkpoint|ckpt|\.safetensors|\.pth?\b", command + "\n" + text):
        return False
    disks = [(row[4], row[5], row[6]) for row in re.findall(DISK_ROW, text)]
    saves = [float(size) * UNITS[unit.upper()] for size, unit in re.findall(SAVED, text)]
    return any(
        int(share) >= 95 or (int(share) >= 60 and saves and float(size) * UNITS[unit] < max(saves))
        for size, unit, share in disks
    )


def still_billed(text, command):
    """Whether a listing of rented boxes has one that is stopped or unused."""
    clouds = re.search(START + LISTS_OF_CLOUDS, command) and re.search(WITH_GPU, text)
    rented = re.search(START + LISTS, command)
    unused = rented and re.search(r"(?i)\butil", text) and re.search(UNUSED, text)
    return bool(unused or ((rented or clouds) and re.search(STOPPED, text)))


# -- prompts ---------------------------------------------------------------------------------------


def matter_of(prompt):
    """Which of PROMPTS a prompt is about, or None.

    Two signs are needed: words of training or of a rented box, more than those of other fields, and
    words of trouble, money, a plan, a start or an end.
    """
    if not prompt or re.search(OURS, prompt):
        return None
    weights, foreign = weights_of(FIELD), names_of(FOREIGN)
    terms = Terms(FIELD + FOREIGN + MATTER)
    words = terms.split(prompt)
    found = terms.found(prompt, words)
    counts = [weights[name] for name in found if name in weights]
    failed = failure(prompt, "") in [KNOWN, *(name for name, _ in FAILURES)]
    score = sum(counts) + 2 * failed - 2 * sum(name in foreign for name in found)
    if score < 2:
        return None
    box = any(name in found for name in BOXES)
    if box and "money" in found:
        return "money"
    if box and ends_box(found):
        return "end"
    if "hire" in found or near(found, "which", BOXES, 4) or near(found, "fit", ("room",), 6):
        return "plan"
    if not (failed or of_training(found)):
        return None
    if failed or in_trouble(found, prompt):
        return "trouble"
    if "away" in found or "more" in found or near(found, "begin", ("a run",), 6):
        return "start"
    return None


def of_training(found):
    """Whether a prompt can only be about training a model.

    A word that other fields use doesn't tell, nor do several: it takes one that only this field
    has, or training beside a technical word. Staff train without GPUs, solvers use them untrained.
    """
    shared = names_of(FIELD, "shared")
    if any(name in found for name in names_of(FIELD) - shared):
        return True
    technical = names_of(FIELD, "technical")
    return any(name in found for name in ("train", "trained")) and any(
        name in found for name in technical
    )


def ends_box(found):
    """Whether a prompt asks for the end of a box; in Chinese its word needs no noun near it."""
    said = near(found, "end", ("box", "rented"), 5)
    return said or found.get("end") == []


def in_trouble(found, prompt):
    """Whether a prompt tells of something wrong, or doubts a run of one's own."""
    if "trouble" in found or near(found, "not", ("works",), 3) or figures(prompt):
        return True
    return ("doubt" in found or re.search("[?\uff1f]|吗", prompt)) and (
        "own" in found or re.search(r"\d\.\d|\d{3}|\d ?%", prompt)
    )


def figures(prompt):
    """Whether figures alone tell of trouble: two speeds, a share that is too good, a plain zero."""
    speeds = re.findall(
        r"(?i)\d ?(?:s/it|it/s|hz|tok(?:ens)?/s|ms/step|s/step|samples/s)\b", prompt
    )
    return (
        len(speeds) > 1
        or re.search(r"\b(?:99(?:\.\d{1,4})?|100(?:\.0)?) ?%|\b0\.99\d{0,4}\b", prompt)
        or re.search(r"(?:is|=|at|to|stays) {0,2}0(?:\.0{1,6})?(?![\d.])", prompt)
    )


def near(found, first, seconds, gap):
    """Whether a word of row `first` stands within `gap` words of one of the rows `seconds`."""
    others = [at for name in seconds for at in found.get(name, ())[:200]]
    return any(abs(at - other) <= gap for at in found.get(first, ())[:200] for other in others)


def rows(table):
    """(name, marks in its brackets, words) of each row of a table above."""
    for row in re.split(r"\n(?=\S)", table.strip()):
        head, _, words = row.partition(":")
        name, _, marks = head.partition(" (")
        yield name, marks, [word.strip() for word in words.split(",")]


def weights_of(table):
    """{name: weight} of the table's rows."""
    return {name: int(marks[0]) for name, marks, _ in rows(table)}


def names_of(table, mark=""):
    """The names of the table's rows, or of those with a mark, such as shared."""
    return {name for name, marks, _ in rows(table) if mark in marks}


class Terms:
    """Which rows of tables a text has, and at which words.

    A term has up to four words. Looking them up takes a time that only grows with the text,
    whatever the text is.
    """

    def __init__(self, table):
        self.words, self.beginnings, self.characters = {}, {}, []
        for name, _, terms in rows(table):
            for term in terms:
                if not term.isascii():
                    self.characters.append((term, name))
                elif term.endswith("*"):
                    self.beginnings.setdefault(term[:-1], []).append(name)
                else:
                    self.words.setdefault(term, []).append(name)

    def split(self, text):
        """The words of a text in small letters, with # for a number of up to three digits.

        A word with a hyphen, a slash or a full stop stays whole where a row has it.
        """
        text = text.lower().replace("\u2019", "'")
        words = []
        for word in re.findall(r"[a-z0-9_]+(?:[./'+-][a-z0-9_]+)*", text):
            whole = re.sub(r"-\d+$", "-#", word)
            parts = [whole] if self.rows_of(whole) else re.split(r"[./+-]", word)
            for part in parts:
                part = re.sub(r"^\d{1,2}x(?=[a-z])", "", part)
                words.append(re.sub(r"^\d{1,3}(?=[a-z]{0,2}$)", "#", part))
        return words

    def found(self, text, words):
        """{row: positions of its words}; Chinese terms have no position."""
        found = {name: [] for term, name in self.characters if term in text}
        for at in range(len(words)):
            for size in (1, 2, 3, 4):
                for name in self.rows_of(" ".join(words[at : at + size])):
                    found.setdefault(name, []).append(at)
        return found

    def rows_of(self, term):
        """The rows that have this term, or a beginning of it."""
        names = list(self.words.get(term, ()))
        for size in range(2, min(len(term), 40) + 1):
            names += self.beginnings.get(term[:size], ())
        return names


if __name__ == "__main__":
    sys.exit(main())
